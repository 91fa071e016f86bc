"""Where people already are: captum, Quantus, pandas, datasets and MLflow. None of them is needed by the package."""
