"""Queries as ``SparkApplication``s, which Kubeflow's or Apache's operator runs on Kubernetes."""
