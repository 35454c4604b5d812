"""Metadata blocks of the Open Data Fabric: their values, bytes and documents."""
