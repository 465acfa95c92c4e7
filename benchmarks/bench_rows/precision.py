"""In which precision the cases of a GPU compute: "float", "tf32", "half" or "bf16"; `gpu.on_gpu` sets it."""

chosen = "float"
