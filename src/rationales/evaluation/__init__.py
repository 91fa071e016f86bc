"""How far an explanation can be trusted: protocols, faithfulness, agreement with people, selection, tables."""
