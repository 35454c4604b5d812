"""An archive as people declare it: values, and YAML both ways."""
