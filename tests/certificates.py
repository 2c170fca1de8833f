"""A certificate for this machine, and who trusts it."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

from paraudio.transport import tls_context


@dataclass(frozen=True)
class Certificates:
    """Files in PEM: the certificate, its key, and the authority that clients trust."""

    cert: Path
    key: Path
    authority: Path

    @property
    def setting(self) -> dict[str, str]:
        """What a configuration has for it under ``tls``."""
        return {"cert": str(self.cert), "key": str(self.key)}

    def server(self) -> ssl.SSLContext:
        return tls_context(str(self.cert), str(self.key))

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))


def certified(folder: Path) -> Certificates:
    """Make a certificate for ``localhost`` and 127.0.0.1 in a folder."""
    made = Certificates(folder / "cert.pem", folder / "key.pem", folder / "authority.pem")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    for blob in issued.cert_chain_pems:
        blob.write_to_path(made.cert, append=True)
    issued.private_key_pem.write_to_path(made.key)
    authority.cert_pem.write_to_path(made.authority)
    return made
