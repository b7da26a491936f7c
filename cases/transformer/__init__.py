"""Machine translation from English to German: Transformer big on WMT14."""
