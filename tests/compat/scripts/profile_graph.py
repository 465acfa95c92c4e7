"""The functions of a graph one by one: names, arguments, times."""

import argparse
import io

import nnabla as nn
import nnabla.functions as F
import nnabla.parametric_functions as PF
import nnabla.solvers as S
import numpy as np
from nnabla.ext_utils import get_extension_context
from nnabla.utils.profiler import GraphProfiler, GraphProfilerCsvWriter


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    args = parser.parse_args()
    nn.set_default_context(get_extension_context(args.context))
    x, t = nn.Variable((8, 3, 8, 8)), nn.Variable((8, 1))
    h = F.relu(PF.convolution(x, 6, (3, 3), stride=(2, 2), name="conv"))
    loss = F.mean(F.softmax_cross_entropy(PF.affine(h, 5, name="fc"), t))
    x.d, t.d = np.random.randn(*x.shape), np.random.randint(0, 5, t.shape)
    solver = S.Momentum()
    solver.set_parameters(nn.get_parameters())
    assert loss.parent.inputs[0].parent.info.type_name == "SoftmaxCrossEntropy"

    profiler = GraphProfiler(loss, solver=solver, device_id=0, ext_name=args.context, n_run=3)
    profiler.run()
    result = profiler.get_result()
    names = [stat.function_name for stat in result["forward"]]
    assert names == ["Convolution", "ReLU", "Affine", "SoftmaxCrossEntropy", "Mean"]
    assert names == [stat.function_name for stat in result["backward"]]
    assert result["forward"][0].parameter_scope == "conv/conv"
    assert tuple(dict(result["forward"][0].args_info)["stride"]) == (2, 2)
    assert float(result["training"]) > 0
    table = io.StringIO()
    GraphProfilerCsvWriter(profiler, file=table).write()
    assert "parameter_scope,function_name,inputs_shape" in table.getvalue()
    print("done: a graph of", len(names), "functions")


if __name__ == "__main__":
    main()
