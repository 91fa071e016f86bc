"""Train the teacher, then the student, evaluate both as stored, and write everything under --out."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from zoo import distil, teacher
from zoo.collection import load_collection
from zoo.judge import judge
from zoo.pace import Pace

TINY_TOKENS = 2048  # a step, in a dry run
TINY_TEXTS = 8  # judged, in a dry run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder written by zoo.prepare")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--phase", choices=("teacher", "student", "both"), default="both")
    parser.add_argument("--teacher", type=Path, help="a trained teacher's folder, for --phase student")
    parser.add_argument("--teacher-steps", type=int, default=3000)
    parser.add_argument("--teacher-minutes", type=float, default=3.0, help="hard limit of the phase")
    parser.add_argument("--student-steps", type=int, default=12_000)
    parser.add_argument("--student-minutes", type=float, default=6.0, help="hard limit of the phase")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="a dry run of minutes on a few hundred texts")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    limit = TINY_TEXTS if args.tiny else None
    tokens = [TINY_TOKENS] * 2 if args.tiny else [teacher.REVIEW_TOKENS, distil.REVIEW_TOKENS]
    encoder = args.data / "minilm"
    teacher_folder = args.teacher or args.out / teacher.NAME
    student_folder = args.out / distil.NAME
    collection = load_collection(args.data, args.seed, args.tiny)
    print({name: len(group) for name, group in collection.groups.items()}, len(collection.corpus.words), "words")

    if args.phase != "student":
        pace = Pace("teacher", args.teacher_steps, args.teacher_minutes)
        teacher.train_teacher(collection, encoder, teacher_folder, device, pace, tokens[0], args.seed)
    model, tokenizer = teacher.load_teacher(encoder, teacher_folder)
    if args.phase != "student":
        judge(model, tokenizer, args.data, teacher_folder, device, limit)
    if args.phase != "teacher":
        pace = Pace("student", args.student_steps, args.student_minutes)
        distil.train_student(collection, model, encoder, student_folder, device, pace, tokens[1], args.seed)
        student = AutoModelForSequenceClassification.from_pretrained(student_folder)
        judge(student, AutoTokenizer.from_pretrained(student_folder), args.data, student_folder, device, limit)


if __name__ == "__main__":
    main()
