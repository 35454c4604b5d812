"""Manifest files: encode and decode."""

from icestream.codec.manifest_decoding import decode_manifest
from icestream.codec.manifest_encoding import encode_manifest

__all__ = ["decode_manifest", "encode_manifest"]
