"""An append-only chain of metadata blocks on any storage, under the rules of Open Data Fabric."""
