"""Matrix products, and the packing and register tiles that convolutions and recurrent layers share with them."""
