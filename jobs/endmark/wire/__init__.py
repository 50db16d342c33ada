"""Wire formats: the bytes of records become columns or rejections."""
