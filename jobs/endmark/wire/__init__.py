"""From the bytes of records to columns or rejections."""
