"""Parts of the NNabla API that NNabla itself calls experimental."""
