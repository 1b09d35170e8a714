"""Roofline: what this machine allows, measured, and which share of it the steps of the loaded model reach."""

from __future__ import annotations

from .measure import roofline

__all__ = ["roofline"]
