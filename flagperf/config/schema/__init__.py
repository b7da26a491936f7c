"""What the files of vendors, products, clusters and frameworks may say, and the typed values that come of them."""
