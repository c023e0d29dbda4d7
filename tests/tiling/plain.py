"""The split in plain integers, written without the formulas: what the tilings are held against."""

from __future__ import annotations

from hypothesis import settings

steady = settings(deadline=None, derandomize=True)
"""The same cases in every run, and no failures of a slow machine."""

LINE_BYTES, BLOCK_BYTES = 512, 32


def plain_blocks(total_length: int, core_num: int, core_split: str, itemsize: int) -> tuple[int, list[tuple[int, int]]]:
    """(unit_length, blocks with work) by handing out units one core after the other."""
    line, datablock = LINE_BYTES // itemsize, BLOCK_BYTES // itemsize
    lines = (total_length + line - 1) // line
    unit = line if core_split == "even" and lines >= core_num else datablock
    units = (total_length + unit - 1) // unit
    blocks, given = [], 0
    for core in range(core_num):
        if core_split == "even":
            share = units // core_num + (1 if core < units % core_num else 0)
        else:
            share = min((units + core_num - 1) // core_num, units - given)
        if share <= 0:
            break
        start = given * unit
        given += share
        blocks.append((start, min(given * unit, total_length) - start))
    return unit, blocks


def plain_tile_length(block_length: int, tile_num: int, buffer_num: int, itemsize: int) -> int:
    datablock = BLOCK_BYTES // itemsize
    tiles = tile_num * buffer_num
    length = block_length // tiles + (block_length % tiles > 0)
    return length + (-length) % datablock


def plain_tiles(block: tuple[int, int], tile_length: int) -> list[tuple[int, int]]:
    start, left = block
    tiles = []
    while left > 0:
        tiles.append((start, min(tile_length, left)))
        start, left = start + tile_length, left - tile_length
    return tiles


def covers_once(total_length: int, ranges: list[tuple[int, int]]) -> bool:
    """By marking every element: only for small lengths."""
    marks = [0] * total_length
    for start, length in ranges:
        if length <= 0 or start < 0 or start + length > total_length:
            return False
        for place in range(start, start + length):
            marks[place] += 1
    return all(mark == 1 for mark in marks)
