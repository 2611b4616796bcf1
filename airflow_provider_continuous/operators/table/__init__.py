"""Look after the tables that queries write to, while they run or not."""

from __future__ import annotations

from airflow_provider_continuous.operators.table.maintain import MaintainTableOperator

__all__ = ["MaintainTableOperator"]
