"""Ed25519 signatures of stored releases: proof of who released it, which no digest gives.

Keys are PEM files as OpenSSL writes them. Needs the package cryptography (privmean[sign]), which is
imported when a key is used. Signed are the digest of the release and the word of `PURPOSE`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from privmean.errors import ArgumentError
from privmean.release.stored_release import PROVENANCE, digest_of, sealed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    from privmean.release.release import Release

PURPOSE = "privmean signature"
SCHEME = "Ed25519"
KeyFile = str | os.PathLike[str]
Key = TypeVar("Key")


def sign(release: Release | Mapping[str, Any], key: KeyFile | Ed25519PrivateKey) -> dict[str, Any]:
    """Sign a release, as `to_dict` stores it.

    Parameters
    ----------
    release : Release or dict
        A release, or the result of its `to_dict`; it must match its digest.
    key : path or Ed25519PrivateKey
        Private key, or its PEM file.

    Returns
    -------
    dict
        The stored release with the public key and the signature.

    Raises
    ------
    ArgumentError
        If the key cannot be used or the release was changed.

    Privacy
    -------
    Charges nothing.

    Examples
    --------
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()  # or the path of a PEM file: privmean keygen key.pem
    release = pm.mean(pm.example("ratings"), "rating", person="student", epsilon=1.0)
    assert pm.verify(pm.sign(release, key))
    """
    private = key if not isinstance(key, str | os.PathLike) else private_key(key)
    stored: Mapping[str, Any] = release if isinstance(release, Mapping) else release.to_dict()
    found = stored.get(PROVENANCE)
    if not isinstance(found, Mapping) or found.get("digest") != _digest(stored):
        raise ArgumentError(
            "release",
            type(release).__name__,
            "does not match its digest",
            "sign it as it was stored",
        )
    facts = {name: value for name, value in stored.items() if name != PROVENANCE}
    signer = public_text(private.public_key())
    signed = sealed(facts, {**found, "signer": signer})
    provenance = signed[PROVENANCE]
    text = _signed_text(provenance["digest"])
    return {**signed, PROVENANCE: {**provenance, "signature": private.sign(text).hex()}}


def _digest(stored: Mapping[str, Any]) -> str | None:
    try:
        return digest_of(stored)
    except ValueError:
        return None


def _signed_text(digest: str) -> bytes:
    return f"{PURPOSE}\n{digest}".encode()


def signature_fits(signature: str, digest: str, public: Ed25519PublicKey) -> bool:
    """Whether the owner of a public key signed this digest."""
    from cryptography.exceptions import InvalidSignature

    try:
        raw = bytes.fromhex(signature)
        public.verify(raw, _signed_text(digest))
    except (ValueError, InvalidSignature):
        return False
    return raw.hex() == signature


def public_text(public: Ed25519PublicKey) -> str:
    """A public key in words: the scheme and 32 bytes in hexadecimal digits."""
    return f"{SCHEME}:{public.public_bytes_raw().hex()}"


def public_of(text: str) -> Ed25519PublicKey | None:
    """The key of `public_text`; None for other text. ModuleNotFoundError without cryptography."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    scheme, _, digits = text.partition(":")
    try:
        made = Ed25519PublicKey.from_public_bytes(bytes.fromhex(digits))
    except ValueError:
        return None
    return made if scheme == SCHEME and public_text(made) == text else None


def private_key(path: KeyFile) -> Ed25519PrivateKey:
    """The private key in a PEM file (PKCS 8, without a password)."""
    ready()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    words = "is no Ed25519 private key without a password"
    return _loaded(path, lambda pem: load_pem_private_key(pem, None), Ed25519PrivateKey, words)


def public_key(path: KeyFile) -> Ed25519PublicKey:
    """The public key in a PEM file (SubjectPublicKeyInfo)."""
    ready()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    return _loaded(path, load_pem_public_key, Ed25519PublicKey, "is no Ed25519 public key")


def _loaded(path: KeyFile, load: Callable[[bytes], object], kind: type[Key], words: str) -> Key:
    """A key of this kind in a PEM file; words: of a file that has none."""
    found: object = None
    try:
        found = load(Path(path).read_bytes())
    except OSError as error:
        words = f"cannot be read: {error.strerror}"
    except (ValueError, TypeError):
        pass
    if not isinstance(found, kind):
        remedy = "make one with `privmean keygen` or `openssl genpkey -algorithm ed25519`"
        raise ArgumentError("key", os.fspath(path), words, remedy)
    return found


def make_keys(path: KeyFile) -> tuple[Path, Path]:
    """A new private key in the file `path` (read by its owner alone), the public one beside it in
    `path`.pub. Raises ArgumentError if there is a file already."""
    ready()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    made = Ed25519PrivateKey.generate()
    secret = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = made.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private_file, public_file = Path(path), Path(f"{os.fspath(path)}.pub")
    for file, data, mode in ((private_file, secret, 0o600), (public_file, public, 0o644)):
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
                out.write(data)
        except OSError as error:
            problem = f"cannot be made: {error.strerror}"
            raise ArgumentError("key", os.fspath(file), problem, "name another file") from None
    return private_file, public_file


def ready() -> None:
    """Refuse signatures where they cannot be made, before anything else is done."""
    from importlib.util import find_spec

    if find_spec("cryptography") is None:
        raise ArgumentError(
            "key", None, "requires the package cryptography", "install privmean[sign]"
        )
