"""Sketches of Apache DataSketches."""

from __future__ import annotations

import pyarrow as pa

from tests.parity import sketches

COLUMNS = {
    "theta": (pa.binary(), sketches.sketches(sketches.theta)),
    "theta2": (pa.binary(), sketches.sketches(sketches.theta)),
}

TEMPLATES = {
    "theta_sketch_estimate": [
        "theta_sketch_estimate(theta)",
        "theta_sketch_estimate(bin)",
        "theta_sketch_estimate(theta_union(theta, theta2, 4))",
    ],
    "theta_union": [
        "theta_union(theta, theta2)",
        "theta_union(theta, theta2, 5)",
        "theta_union(theta, theta2, n)",
        "theta_union(theta_union(theta, theta2, 4), theta)",
    ],
    "theta_intersection": [
        "theta_intersection(theta, theta2)",
        "theta_intersection(theta, theta_union(theta, theta2))",
        "theta_intersection(theta2, theta_union(theta, theta2, 4))",
    ],
    "theta_difference": [
        "theta_difference(theta, theta2)",
        "theta_difference(theta_union(theta, theta2, 6), theta)",
        "theta_difference(theta, theta_intersection(theta, theta2))",
    ],
}
