"""The messages of NNabla's protobuf description, built when first needed from tables of names, numbers and types."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from atled.errors import four_parts
from atled.files.function_messages import FUNCTION_MESSAGES

# One row per message: its name, then `name=number:type`; `*` marks repeated fields, `|` those of the oneof `parameter`.
_MESSAGES = """
Shape dim=1:int64*
Communicator
Context backends=1:string* array_class=2:string device_id=3:string backend=4:string compute_backend=5:string
NNablaProtoBuf version=1:string global_config=2:GlobalConfig training_config=10:TrainingConfig network=100:Network* \
parameter=200:Parameter* dataset=300:Dataset* optimizer=400:Optimizer* monitor=500:Monitor* executor=600:Executor*
GlobalConfig default_context=1:Context
TrainingConfig max_epoch=1:int64 iter_per_epoch=2:int64 save_best=100:bool monitor_interval=200:int64
Network name=1:string batch_size=10:int64 repeat_info=11:RepeatInfo* variable=100:Variable* function=200:Function*
RepeatInfo id=1:string times=2:int64
Variable name=1:string type=2:string repeat_id=3:string* shape=20:Shape initializer=100:Initializer
Initializer type=2:string multiplier=10:float
Parameter variable_name=1:string shape=20:Shape data=100:float* need_grad=101:bool
Dataset name=1:string type=2:string uri=10:string batch_size=20:int64 cache_dir=30:string overwrite_cache=31:bool \
create_cache_explicitly=32:bool shuffle=100:bool no_image_normalization=101:bool variable=200:string*
Optimizer name=1:string order=3:int64 network_name=10:string dataset_name=20:string* solver=30:Solver \
update_interval=40:int64 data_variable=50:DataVariable* generator_variable=60:GeneratorVariable* \
loss_variable=70:LossVariable* parameter_variable=80:ParameterVariable* start_iter=100:int64 end_iter=101:int64
Solver type=2:string context=10:Context weight_decay=20:float lr_decay=30:float lr_decay_interval=31:int64 \
states=40:StatesEntry* sgd_param=100:SgdParameter| sgdw_param=101:SgdWParameter| momentum_param=102:MomentumParameter| \
lars_param=103:LarsParameter| nesterov_param=104:NesterovParameter| adadelta_param=105:AdadeltaParameter| \
adagrad_param=106:AdagradParameter| adabelief_param=107:AdaBeliefParameter| rmsprop_param=108:RMSpropParameter| \
rmsprop_graves_param=109:RMSpropGravesParameter| adam_param=110:AdamParameter| adamw_param=111:AdamWParameter| \
adabound_param=112:AdaBoundParameter| adamax_param=113:AdamaxParameter| amsgrad_param=114:AMSGRADParameter| \
amsbound_param=115:AMSBoundParameter| lamb_param=116:LambParameter| lion_param=117:LionParameter| \
lr_scheduler_type=200:string polynomial_scheduler_param=210:PolynomialSchedulerParameter \
cosine_scheduler_param=211:CosineSchedulerParameter exponential_scheduler_param=212:ExponentialSchedulerParameter \
step_scheduler_param=213:StepSchedulerParameter custom_scheduler_param=299:CustomSchedulerParameter \
lr_warmup_scheduler_type=300:string linear_warmup_scheduler_param=310:LinearWarmupSchedulerParameter
StatesEntry key=1:string value=2:SolverState
SolverState t=1:uint32 state_parameter=2:StateParameterEntry*
StateParameterEntry key=1:string value=2:SolverStateParameter
SolverStateParameter shape=20:Shape data=100:float*
SgdParameter lr=1:float
SgdWParameter lr=1:float momentum=2:float wd=3:float
MomentumParameter lr=1:float momentum=2:float
LarsParameter lr=1:float momentum=2:float coefficient=3:float eps=4:float
NesterovParameter lr=1:float momentum=2:float
AdadeltaParameter lr=1:float decay=2:float eps=3:float
AdagradParameter lr=1:float eps=2:float
AdaBeliefParameter alpha=1:float beta1=2:float beta2=3:float eps=4:float wd=5:float amsgrad=6:bool \
weight_decouple=7:bool fixed_decay=8:bool rectify=9:bool
RMSpropParameter lr=1:float decay=2:float eps=3:float
RMSpropGravesParameter lr=1:float decay=2:float momentum=3:float eps=4:float
AdamParameter alpha=1:float beta1=2:float beta2=3:float eps=4:float
AdamWParameter alpha=1:float beta1=2:float beta2=3:float eps=4:float wd=5:float
AdaBoundParameter alpha=1:float beta1=2:float beta2=3:float eps=4:float final_lr=5:float gamma=6:float
AdamaxParameter alpha=1:float beta1=2:float beta2=3:float eps=4:float
AMSGRADParameter alpha=1:float beta1=2:float beta2=3:float eps=4:float bias_correction=5:bool
AMSBoundParameter alpha=1:float beta1=2:float beta2=3:float eps=4:float final_lr=5:float gamma=6:float \
bias_correction=7:bool
LambParameter eta=1:float beta1=2:float beta2=3:float gamma_l=4:float gamma_u=5:float eps=6:float bias_correction=7:bool
LionParameter lr=1:float beta1=2:float beta2=3:float
PolynomialSchedulerParameter max_iter=1:float power=2:float
CosineSchedulerParameter max_iter=1:float
ExponentialSchedulerParameter gamma=1:float iter_interval=2:int64
StepSchedulerParameter gamma=1:float iter_steps=2:int64*
CustomSchedulerParameter max_iter=1:float network_name=10:string data_variable=50:DataVariable* \
output_variable=80:OutputVariable*
LinearWarmupSchedulerParameter warmup_iter=1:int64
DataVariable variable_name=1:string data_name=3:string
GeneratorVariable variable_name=1:string type=2:string multiplier=3:float
LossVariable variable_name=1:string
ParameterVariable variable_name=1:string learning_rate_multiplier=2:float
Monitor name=1:string network_name=10:string dataset_name=20:string* data_variable=50:DataVariable* \
generator_variable=60:GeneratorVariable* monitor_variable=70:MonitorVariable*
MonitorVariable variable_name=1:string type=2:string data_name=3:string multiplier=100:float
Executor name=1:string network_name=10:string num_evaluations=20:int64 repeat_evaluation_type=21:string \
need_back_propagation=30:bool data_variable=50:DataVariable* generator_variable=60:GeneratorVariable* \
loss_variable=70:LossVariable* output_variable=80:OutputVariable* parameter_variable=90:ParameterVariable* \
no_image_normalization=101:bool
OutputVariable variable_name=1:string type=2:string data_name=3:string
RepeatParameter repeat_id=1:string times=2:int64
RecurrentParameter repeat_id=1:string length=2:int64 axis=3:int64
"""
_FUNCTION = (
    "name=1:string type=2:string repeat_id=3:string* context=10:Context input=20:string* output=30:string* "
    "repeat_param=100:RepeatParameter recurrent_param=101:RecurrentParameter"
)
_PACKAGE = "atled_nnabla"  # names are not part of a file; one of our own meets no other copy of the description

Message = Any
"""A message of the description; its class is made at run time, so no type checker knows it."""


def library(asked: str) -> SimpleNamespace:
    """The parts of the protobuf library that are used; ImportError with the remedy where it is missing."""
    try:
        # Lazily: an optional dependency.
        from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, text_format
    except ImportError as error:
        raise ImportError(
            four_parts(
                asked,
                f"the protobuf library cannot be imported ({error})",
                "",
                "pip install 'atled[protobuf]' (or pip install protobuf)",
            )
        ) from error
    return SimpleNamespace(
        descriptor_pb2=descriptor_pb2,
        descriptor_pool=descriptor_pool,
        message=message,
        message_factory=message_factory,
        text_format=text_format,
    )


def new_message(asked: str, name: str) -> Message:
    """An empty message of a name, such as NNablaProtoBuf; asked: for the error where protobuf is missing."""
    return message_classes(asked)[name]()


def message_classes(asked: str) -> Mapping[str, Any]:
    """The classes of all messages by name; asked: for the error where protobuf is missing."""
    library(asked)
    return _classes()


@functools.cache
def _classes() -> dict[str, Any]:
    protobuf = library("NNabla's messages")
    file = protobuf.descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    for row in _MESSAGES.strip().splitlines():
        name, *fields = row.split()
        _add_message(protobuf, file, name, fields)
    function_fields = _FUNCTION.split()
    for row in FUNCTION_MESSAGES.strip().splitlines():
        function, number, name, *fields = row.split()
        function_fields.append(f"{function}_param={number}:{name}|")
        numbered = [field.replace(":", f"={position}:") for position, field in enumerate(fields, 1)]
        _add_message(protobuf, file, name, numbered)
    _add_message(protobuf, file, "Function", function_fields)
    pool = protobuf.descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message.name: protobuf.message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}"))
        for message in file.message_type
    }


def _add_message(protobuf: SimpleNamespace, file: Any, name: str, fields: list[str]) -> None:
    kinds = protobuf.descriptor_pb2.FieldDescriptorProto
    message = file.message_type.add(name=name)
    for text in fields:
        field_name, rest = text.split("=")
        number, kind = rest.split(":")
        plain = kind.rstrip("*|")
        field = message.field.add(name=field_name, number=int(number))
        field.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
        if plain.islower() or plain == "int64":
            field.type = getattr(kinds, f"TYPE_{plain.upper()}")
        else:
            field.type = kinds.TYPE_MESSAGE
            field.type_name = f".{_PACKAGE}.{plain}"
        if kind.endswith("|"):
            if not message.oneof_decl:
                message.oneof_decl.add(name="parameter")
            field.oneof_index = 0
