"""Texts to continue for ``agreement.py``: ten of the bar, and sixty of six kinds, written down before any was tried."""

from __future__ import annotations

BAR = (
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "Photosynthesis is the process by which",
    "def fibonacci(n):\n",
    "The three primary colours are",
    "Water boils at a temperature of",
    "To make a cup of tea, first",
    "The largest planet in the solar system is",
    "In 1969, the first man walked on",
    "A good friend is someone who",
)

FACTS = (
    "The currency of Japan is",
    "The chemical symbol of gold is",
    "The longest river in Africa is",
    "William Shakespeare was born in",
    "The human heart has",
    "Mount Everest lies between",
    "The speed of light is about",
    "Penicillin was discovered by",
    "The Great Wall of China was built to",
    "A year on Mars lasts",
)
COUNTING = (
    "1, 2, 3, 4, 5,",
    "10, 20, 30, 40,",
    "one, two, three, four,",
    "2, 4, 8, 16, 32,",
    "100, 99, 98, 97,",
    "Monday, Tuesday, Wednesday,",
    "January, February, March,",
    "A, B, C, D, E,",
    "1 + 1 = 2\n2 + 2 = 4\n3 + 3 =",
    "1 x 7 = 7\n2 x 7 = 14\n3 x 7 =",
)
COPYING = (
    "red green blue\nred green blue\nred green",
    "Say it again: the cat sat on the mat. Say it again:",
    "name: Ann\nage: 31\nname: Ann\nage:",
    "abc abc abc abc",
    "to be or not to be, to be or not to be,",
    "Hello, world! Hello, world! Hello,",
    "key=value; key=value; key=",
    "The rain in Spain. The rain in Spain. The rain",
    "0101010101010101",
    "ping pong ping pong ping",
)
CODE = (
    "def add(a, b):\n",
    "for i in range(10):\n",
    "import os\nimport sys\n",
    "class Stack:\n    def __init__(self):\n",
    "SELECT name, age FROM",
    "#include <stdio.h>\n\nint main() {\n",
    "function greet(name) {\n",
    "<html>\n<head>\n",
    "def is_prime(n):\n    if n < 2:\n",
    '{"name": "Ann", "age":',
)
STORIES = (
    "The old lighthouse keeper woke before dawn and",
    "Nobody in the town believed the boy when he said",
    "It was raining the day that the circus came, and",
    '"I have never seen anything like it," said the captain,',
    "The dragon looked at the knight and",
    "She opened the letter with shaking hands.",
    "Deep in the forest there lived a fox who",
    "The train was late again, so",
    "On the last day of summer, my grandmother",
    "When the robot first opened its eyes,",
)
LISTS = (
    "Three things to pack for the beach:\n1.",
    "Ingredients of a pancake:\n-",
    "The planets, beginning with the nearest to the sun:",
    "Ways to save energy at home:\n1.",
    "My favourite animals are dogs,",
    "Steps to plant a tree:\n1.",
    "Common programming languages are",
    "Tools that a carpenter needs:\n-",
    "Reasons to learn a language:\n1.",
    "Fruits that are yellow:",
)
SAMPLE = (*FACTS, *COUNTING, *COPYING, *CODE, *STORIES, *LISTS)
