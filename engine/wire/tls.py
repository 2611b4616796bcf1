"""TLS below the protocol, if the query asks for it.

Each run makes a key and a certificate of its own, which sign for themselves. The certificate
travels to the tasks beside the secret, and is the only one that they accept: nobody keeps keys, and
no name or date has to be right. The private key stays in the driver's memory.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from datetime import datetime
from pathlib import Path

from engine.errors import ConfigError

_NAME = "continuous"
# Its end is that of the run: an executor's clock may be wrong. The latest date: RFC 5280, 4.1.2.5.
_NOT_BEFORE = datetime(1990, 1, 1)
_NOT_AFTER = datetime(9999, 12, 31, 23, 59, 59)


def driver_context() -> tuple[ssl.SSLContext, str]:
    """The driver's end, and the certificate that its tasks are given, as PEM.

    :raises ConfigError: the package ``cryptography`` is missing.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as exc:
        raise ConfigError(
            "Option coordinatorTls needs the package cryptography, which is not installed.",
            hint="pip install 'airflow-provider-continuous[tls]'",
        ) from exc
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    password = secrets.token_bytes(32).hex().encode()
    sealed = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, certificate + sealed, password)
    return context, certificate.decode()


def _load(context: ssl.SSLContext, pem: bytes, password: bytes) -> None:
    """:mod:`ssl` reads keys from files only: what is in this one is encrypted."""
    descriptor, path = tempfile.mkstemp(prefix="continuous-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
        context.load_cert_chain(path, password=password)
    finally:
        Path(path).unlink()


def task_context(certificate: str) -> ssl.SSLContext:
    """A task's end, which accepts the driver with this certificate and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # any name will do: the certificate itself is known
    context.load_verify_locations(cadata=certificate)
    return context
