"""Wire formats: parsers turn the bytes of records into columns or rejections."""
