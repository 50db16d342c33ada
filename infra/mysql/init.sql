-- The master table of the auction pipeline, which the feed fills.
CREATE TABLE sellers (
    seller_id BIGINT NOT NULL PRIMARY KEY,
    name VARCHAR(100) NOT NULL,
    country VARCHAR(2) NOT NULL,
    rating DOUBLE NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
