/** A processor that ends its child while it is loaded. Does not: run. */
process.exit(3);
