"""A throw-away certificate authority for mutual TLS, made with the openssl command."""

import pathlib
import subprocess

TRUST_DOMAIN = "weft.demo"
_NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def _openssl(*arguments):
    done = subprocess.run(
        ["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.strip()}")


class Authority:
    """Signs certificates whose subject alternative name says who the holder is."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._folder.mkdir(mode=0o700)
        self.ca_file = self._folder / "ca.crt"
        _openssl(
            "req", "-x509", *_NEW_KEY, "-days", "2", "-subj", "/CN=Weft demo CA",
            "-keyout", str(self._folder / "ca.key"), "-out", str(self.ca_file),
        )  # fmt: skip

    def issue(self, role, name, hosts=()):
        """The configuration keys of a new certificate for spiffe://weft.demo/<role>/<name>."""
        stem = self._folder / f"{role}-{name}"
        names = [f"URI:spiffe://{TRUST_DOMAIN}/{role}/{name}"] + list(hosts)
        key, request, certificate = (stem.with_suffix(s) for s in (".key", ".csr", ".crt"))
        extensions = stem.with_suffix(".ext")
        extensions.write_text(f"subjectAltName={','.join(names)}\n", encoding="ascii")
        _openssl("req", *_NEW_KEY, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
        _openssl(
            "x509", "-req", "-in", str(request), "-days", "2", "-extfile", str(extensions), "-out", str(certificate),
            "-CA", str(self.ca_file), "-CAkey", str(self._folder / "ca.key"), "-CAcreateserial",
        )  # fmt: skip
        return {"certificate_file": str(certificate), "key_file": str(key), "ca_file": str(self.ca_file)}
