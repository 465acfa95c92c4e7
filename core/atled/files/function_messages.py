"""What NNabla's format says of each function: number and name of its message, with the fields in their order."""

# One row per function with attributes, of those too that atled does not have: files with them are read, and refused by
# name. Function, field number in `Function`, message, then the fields `name:type`, numbered from 1; `*` marks repeated
# ones. Numbers, names and types are those of NNabla 1.39.
FUNCTION_MESSAGES = """
affine 1001 AffineParameter base_axis:int64
rnn 1002 RNNParameter num_layers:int64 nonlinearity:string dropout:float bidirectional:bool training:bool
lstm 1003 LSTMParameter num_layers:int64 dropout:float bidirectional:bool training:bool
gru 1004 GRUParameter num_layers:int64 dropout:float bidirectional:bool training:bool
convolution 1005 ConvolutionParameter base_axis:int64 pad:Shape stride:Shape dilation:Shape group:int64 \
channel_last:bool
fused_convolution 1006 FusedConvolutionParameter base_axis:int64 pad:Shape stride:Shape dilation:Shape group:int64 \
channel_last:bool decay_rate:float eps:float batch_stat:bool nonlinearity:string nonlinearity_args:float* \
pad_mode:string constant_value:float
depthwise_convolution 1007 DepthwiseConvolutionParameter base_axis:int64 pad:Shape stride:Shape dilation:Shape \
multiplier:int64
deconvolution 1008 DeconvolutionParameter base_axis:int64 pad:Shape stride:Shape dilation:Shape group:int64 \
channel_last:bool output_padding:Shape
depthwise_deconvolution 1009 DepthwiseDeconvolutionParameter base_axis:int64 pad:Shape stride:Shape dilation:Shape \
divisor:int64
deformable_convolution 1010 DeformableConvolutionParameter base_axis:int64 pad:Shape stride:Shape dilation:Shape \
group:int64 deformable_group:int64 channel_last:bool
max_pooling 1012 MaxPoolingParameter kernel:Shape stride:Shape ignore_border:bool pad:Shape channel_last:bool
average_pooling 1013 AveragePoolingParameter kernel:Shape stride:Shape ignore_border:bool pad:Shape channel_last:bool \
including_pad:bool
sum_pooling 1015 SumPoolingParameter kernel:Shape stride:Shape ignore_border:bool pad:Shape channel_last:bool
unpooling 1016 UnpoolingParameter kernel:Shape channel_last:bool
roi_align 1018 RoiAlignParameter output_size:Shape spatial_scale:float* sampling_ratio:int64 channel_last:bool
relu 1022 ReLUParameter inplace:bool
leaky_relu 1023 LeakyReLUParameter alpha:float inplace:bool
softmax 1024 SoftmaxParameter axis:int64
log_softmax 1025 LogSoftmaxParameter axis:int64
elu 1026 ELUParameter alpha:double
selu 1027 SELUParameter scale:double alpha:double
crelu 1028 CReLUParameter axis:int64
celu 1029 CELUParameter alpha:double axis:int64
prelu 1030 PReLUParameter base_axis:int64
softplus 1037 SoftPlusParameter beta:double
fused_batch_normalization 1041 FusedBatchNormalizationParameter axes:int64* decay_rate:float eps:float batch_stat:bool \
nonlinearity:string
batch_normalization 1042 BatchNormalizationParameter axes:int64* decay_rate:float eps:float batch_stat:bool \
no_scale:bool no_bias:bool
group_normalization 1043 GroupNormalizationParameter num_groups:int64 channel_axis:int64 batch_axis:int64* eps:float \
no_scale:bool no_bias:bool
instance_normalization 1044 InstanceNormalizationParameter channel_axis:int64 batch_axis:int64* eps:float \
no_scale:bool no_bias:bool
layer_normalization 1045 LayerNormalizationParameter batch_axis:int64* eps:float no_scale:bool no_bias:bool
norm_normalization 1046 NormNormalizationParameter p:float axes:int64* eps:float
sync_batch_normalization 1047 SyncBatchNormalizationParameter comm:Communicator group:string axes:int64* \
decay_rate:float eps:float batch_stat:bool
tensor_normalization 1048 TensorNormalizationParameter axes:int64* eps:float no_scale:bool no_bias:bool
weight_normalization 1049 WeightNormalizationParameter dim:int64 eps:float
weight_standardization 1050 WeightStandardizationParameter channel_axis:int64 eps:float
spectral_norm 1051 SpectralNormParameter dim:int64 itr:int64 eps:float test:bool output_u:bool
mean_subtraction 1052 MeanSubtractionParameter base_axis:int64 update_running_mean:bool
clip_grad_by_norm 1054 ClipGradByNormParameter clip_norm:float axes:int64*
sum 1055 SumParameter axes:int64* keep_dims:bool
cumsum 1056 CumSumParameter axis:int64 exclusive:bool reverse:bool
mean 1057 MeanParameter axes:int64* keep_dims:bool
max 1058 MaxParameter axes:int64* keep_dims:bool with_index:bool only_index:bool
min 1059 MinParameter axes:int64* keep_dims:bool with_index:bool only_index:bool
norm 1060 NormParameter p:float axes:int64* keep_dims:bool
prod 1061 ProdParameter axes:int64* keep_dims:bool
cumprod 1062 CumProdParameter axis:int64 exclusive:bool reverse:bool
add2 1065 Add2Parameter inplace:bool
bc_add2 1067 BcAdd2Parameter inplace:bool
sub2 1068 Sub2Parameter inplace:bool
mul2 1069 Mul2Parameter inplace:bool
div2 1071 Div2Parameter inplace:bool
pow2 1072 Pow2Parameter inplace:bool
add_scalar 1073 AddScalarParameter val:double inplace:bool
mul_scalar 1074 MulScalarParameter val:double inplace:bool
pow_scalar 1075 PowScalarParameter val:double inplace:bool
r_sub_scalar 1076 RSubScalarParameter val:double
r_div_scalar 1077 RDivScalarParameter val:double
r_pow_scalar 1078 RPowScalarParameter val:double
sign 1079 SignParameter alpha:float
minimum_scalar 1082 MinimumScalarParameter val:double
maximum_scalar 1083 MaximumScalarParameter val:double
searchsorted 1093 SearchSortedParameter right:bool
logical_and_scalar 1094 LogicalAndScalarParameter val:bool
logical_or_scalar 1095 LogicalOrScalarParameter val:bool
logical_xor_scalar 1096 LogicalXorScalarParameter val:bool
equal_scalar 1097 EqualScalarParameter val:double
not_equal_scalar 1098 NotEqualScalarParameter val:double
greater_equal_scalar 1099 GreaterEqualScalarParameter val:double
greater_scalar 1100 GreaterScalarParameter val:double
less_equal_scalar 1101 LessEqualScalarParameter val:double
less_scalar 1102 LessScalarParameter val:double
reset_nan 1106 ResetNaNParameter val:double
reset_inf 1107 ResetInfParameter val:double
constant 1109 ConstantParameter val:float shape:Shape
arange 1110 ArangeParameter start:float stop:float step:float
linspace 1111 LinspaceParameter start:float stop:float num:int64
batch_matmul 1116 BatchMatmulParameter transpose_a:bool transpose_b:bool
round 1117 RoundParameter
ceil 1118 CeilParameter
floor 1119 FloorParameter
concatenate 1133 ConcatenateParameter axis:int64
split 1134 SplitParameter axis:int64
stack 1135 StackParameter axis:int64
slice 1136 SliceParameter start:int64* stop:int64* step:int64*
pad 1137 PadParameter pad_width:int64* mode:string constant_value:float
transpose 1138 TransposeParameter axes:int64*
broadcast 1139 BroadcastParameter shape:Shape
broadcast_to 1140 BroadcastToParameter axis:int64
tile 1141 TileParameter reps:int64*
one_hot 1142 OneHotParameter shape:Shape
flip 1143 FlipParameter axes:int64*
shift 1144 ShiftParameter shifts:int64* border_mode:string
sort 1145 SortParameter axis:int64 reverse:bool with_index:bool only_index:bool
reshape 1146 ReshapeParameter shape:Shape inplace:bool
shape 1147 ShapeParameter start:int64 end:int64
trilu 1150 TriluParameter k:int64 upper:bool
meshgrid 1151 MeshgridParameter ij_indexing:bool
batch_cholesky 1155 BatchCholeskyParameter upper:bool
gather 1157 GatherParameter axis:int64 batch_dims:int64
scatter_nd 1160 ScatterNdParameter shape:int64* add:bool
scatter_add 1161 ScatterAddParameter axis:int64
bool_fill 1163 BoolFillParameter value:float
pack_padded_sequence 1164 PackPaddedSequenceParameter batch_first:bool
pad_packed_sequence 1165 PadPackedSequenceParameter batch_first:bool padding_value:float total_length:int64
interpolate 1167 InterpolateParameter output_size:int64* mode:string align_corners:bool half_pixel:bool \
half_pixel_for_nn:bool channel_last:bool
onnx_resize 1168 ONNXResizeParameter roi:float* scales:float* sizes:int64* mode:string \
coordinate_transformation_mode:string cubic_coeff_a:float exclude_outside:int64 extrapolation_value:float \
nearest_mode:string
fft 1169 FFTParameter signal_ndim:int64 normalized:bool
ifft 1170 IFFTParameter signal_ndim:int64 normalized:bool
stft 1171 STFTParameter window_size:int64 stride:int64 fft_size:int64 window_type:string center:bool pad_mode:string \
as_istft_backward:bool
istft 1172 ISTFTParameter window_size:int64 stride:int64 fft_size:int64 window_type:string center:bool pad_mode:string \
as_stft_backward:bool
dropout 1173 DropoutParameter p:double seed:int64
top_k_data 1174 TopKDataParameter k:int64 abs:bool reduce:bool base_axis:int64 largest:bool with_index:bool
top_k_grad 1175 TopKGradParameter k:int64 abs:bool base_axis:int64
rand 1176 RandParameter low:float high:float shape:Shape seed:int64
randint 1177 RandintParameter low:int64 high:int64 shape:Shape seed:int64
randn 1178 RandnParameter mu:float sigma:float shape:Shape seed:int64
rand_binomial 1179 RandBinomialParameter n:int64 p:float shape:Shape seed:int64
rand_beta 1180 RandBetaParameter alpha:float beta:float shape:Shape seed:int64
rand_gamma 1181 RandGammaParameter k:float theta:float shape:Shape seed:int64
random_choice 1182 RandomChoiceParameter shape:Shape replace:bool seed:int64
random_crop 1183 RandomCropParameter shape:Shape base_axis:int64 seed:int64
random_flip 1184 RandomFlipParameter axes:int64* base_axis:int64 seed:int64
random_shift 1185 RandomShiftParameter shifts:int64* border_mode:string constant_value:float base_axis:int64 \
seed:int64
random_erase 1186 RandomEraseParameter prob:float area_ratios:float* aspect_ratios:float* replacements:float* n:int64 \
share:bool inplace:bool base_axis:int64 seed:int64 channel_last:bool ste_fine_grained:bool
image_augmentation 1187 ImageAugmentationParameter shape:Shape pad:Shape min_scale:float max_scale:float angle:float \
aspect_ratio:float distortion:float flip_lr:bool flip_ud:bool brightness:float brightness_each:bool contrast:float \
contrast_center:float contrast_each:bool noise:float seed:int64
softmax_cross_entropy 1190 SoftmaxCrossEntropyParameter axis:int64
categorical_cross_entropy 1191 CategoricalCrossEntropyParameter axis:int64
huber_loss 1194 HuberLossParameter delta:float
epsilon_insensitive_loss 1195 EpsilonInsensitiveLossParameter epsilon:float
kl_multinomial 1196 KLMultinomialParameter base_axis:int64
affine_grid 1197 AffineGridParameter size:int64* align_corners:bool
warp_by_grid 1198 WarpByGridParameter mode:string padding_mode:string align_corners:bool channel_last:bool
binary_connect_affine 1202 BinaryConnectAffineParameter base_axis:int64 quantize_zero_to:float
binary_connect_convolution 1203 BinaryConnectConvolutionParameter base_axis:int64 pad:Shape stride:Shape \
dilation:Shape group:int64 quantize_zero_to:float
binary_weight_affine 1204 BinaryWeightAffineParameter base_axis:int64 quantize_zero_to:float
binary_weight_convolution 1205 BinaryWeightConvolutionParameter base_axis:int64 pad:Shape stride:Shape dilation:Shape \
group:int64 quantize_zero_to:float
inq_affine 1206 INQAffineParameter base_axis:int64 num_bits:int64 inq_iterations:int64* selection_algorithm:string \
seed:int64
inq_convolution 1207 INQConvolutionParameter base_axis:int64 pad:Shape stride:Shape dilation:Shape group:int64 \
num_bits:int64 inq_iterations:int64* selection_algorithm:string seed:int64
fixed_point_quantize 1208 FixedPointQuantizeParameter sign:bool n:int64 delta:float ste_fine_grained:bool
min_max_quantize 1209 MinMaxQuantizeParameter decay:float x_min_max:bool ema:bool ste_fine_grained:bool eps:float
pow2_quantize 1210 Pow2QuantizeParameter sign:bool with_zero:bool n:int64 m:int64 ste_fine_grained:bool
prune 1211 PruneParameter rate:float
quantize_linear 1212 QuantizeLinearParameter round_mode:string narrow_range:bool dtype:int64
top_n_error 1214 TopNErrorParameter axis:int64 n:int64
confusion_matrix 1216 ConfusionMatrixParameter axis:int64
vat_noise 1217 VATNoiseParameter base_axis:int64 eps:float
sink 1219 SinkParameter one_input_grad:bool
nms_detection2d 1220 NmsDetection2dParameter thresh:float nms:float nms_per_class:bool
onnx_non_max_suppression 1221 ONNXNonMaxSuppressionParameter center_point_box:int64 max_output_boxes_per_class:int64 \
iou_threshold:float score_threshold:float
max_pooling_backward 1222 MaxPoolingBackwardParameter kernel:Shape stride:Shape ignore_border:bool pad:Shape \
channel_last:bool
patch_correlation 1223 PatchCorrelationParameter patch:Shape shift:Shape patch_step:Shape shift_step:Shape \
padding:Shape
unique 1224 UniqueParameter flatten:bool axis:int64 sorted:bool with_index:bool with_inverse:bool with_counts:bool
eye_like 1225 EyeLikeParameter k:int64
mod2 1226 Mod2Parameter fmod:bool
bit_shift 1227 BitShiftParameter direction:string
einsum 1228 EinsumParameter equation:string
"""
