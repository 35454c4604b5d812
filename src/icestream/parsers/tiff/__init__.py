"""TIFF files, GeoTIFF and COG among them: tiles and strips are chunks."""
