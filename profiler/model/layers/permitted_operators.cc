#include "profiler/model/layers/permitted_operators.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace mptune::profiler {
namespace {

constexpr std::string_view kNamespace = "aten::";

// Operators that take a text that selects a mode or is data itself. In-place forms have the same entry.
constexpr std::string_view kWithTexts =
    " add all any argsort capitalize cat center clear concat concatenate conv1d conv2d conv3d copy count cummax cummin cumprod cumsum"
    " Delete device diagonal dict div divide einsum empty endswith eq expandtabs find flatten Float format full gather ge gelu"
    " gelu_backward get get_autocast_dtype gt hash index index_add index_copy index_fill index_reduce index_select Int"
    " is_autocast_enabled isalnum isalpha isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper items"
    " join keys kthvalue le len list ljust log_softmax logcumsumexp logsumexp lower lstrip lt max mean median meshgrid min mode"
    " nanmedian nanquantile ne norm ones ord pad pad_sequence partition percentFormat pop popitem prod quantile rand randn replace"
    " rfind rindex rjust rpartition rsplit rstrip scatter scatter_add scatter_reduce searchsorted segment_reduce select setdefault"
    " size slice softmax sort sorted split splitlines squeeze startswith std std_mean stft str stride strip sum swapcase title"
    " transpose unbind unflatten update upper values var var_mean warn zeros zfill ";
constexpr std::string_view kWithTextsBeginning[] = {"fft_", "linalg_"};

// Public operators that do more than compute, or trust the indices that they are given.
constexpr std::string_view kExcluded =
    " backward cuda from_file get_gradients initial_seed manual_seed pin_memory record_stream resize resize_as resize_as_sparse"
    " retain_grad save seed set set_data wait ";
constexpr std::string_view kExcludedBeginning[] = {"fbgemm_", "quantized_", "miopen_", "cudnn_", "mkldnn_", "nested_", "sparse_"};

// Operators that PyTorch keeps to itself, but that its own functions, torch.export and decompositions leave in programs.
constexpr std::string_view kPrivate =
    " _adaptive_avg_pool2d _adaptive_avg_pool3d _addmm_activation _aminmax _assert_async _assert_scalar _assert_tensor_metadata"
    " _autocast_to_full_precision _autocast_to_reduced_precision _batch_norm_impl_index _batch_norm_no_update _batch_norm_with_update"
    " _batch_norm_with_update_functional _cdist_forward _cholesky_solve_helper _compute_linear_combination _conj _conj_copy"
    " _conj_physical _convolution _convolution_mode _ctc_loss _dim_arange _efficientzerotensor _embedding_bag"
    " _embedding_bag_forward_only _euclidean_dist _functional_assert_async _functional_assert_scalar _fused_dropout _fused_rms_norm"
    " _fused_sdp_choice _grad_sum_to_size _grid_sampler_2d_cpu_fallback _grouped_mm _infer_size _int_mm _is_all_true _is_any_true"
    " _list_to_tensor _local_scalar_dense _log_softmax _logcumsumexp _masked_scale _masked_softmax _native_batch_norm_legit"
    " _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _native_multi_head_attention _ncf_unsqueeze _ncf_view"
    " _neg_view _no_grad_embedding_renorm _no_grad_fill _no_grad_normal _no_grad_uniform _no_grad_zero _pack_padded_sequence"
    " _pack_sequence _pad_circular _pad_enum _pad_packed_sequence _pdist_forward _prelu_kernel _reshape_alias _reshape_copy"
    " _reshape_from_tensor _safe_softmax _sample_dirichlet _scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention"
    " _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu"
    " _scaled_dot_product_fused_attention_overrideable _scaled_mm _set_item _shape_as_tensor _size_if_not_equal _softmax"
    " _sparse_log_softmax _sparse_mm _sparse_softmax _sparse_sum _stack _standard_gamma _tensor_to_list _thnn_fused_gru_cell"
    " _thnn_fused_lstm_cell _to_copy _to_cpu _to_dense _transform_bias_rescale_qkv _transformer_encoder_layer_fwd _trilinear _unique"
    " _unique2 _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view _unwrap_optional"
    " _weight_norm _weight_norm_interface ";
// `__` begins Python's own operators, such as __and__.
constexpr std::string_view kPrivateBeginning[] = {"__", "_cast_", "_fake_quantize_", "_fft_", "_foreach_", "_linalg_", "_upsample_"};

// `names` are between blanks.
bool contains(std::string_view names, std::string_view name) {
  return names.find(" " + std::string(name) + " ") != std::string_view::npos;
}

bool begins_with_one_of(std::span<const std::string_view> beginnings, std::string_view name) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
}

bool is_value(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::NoneType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
    case c10::TypeKind::GeneratorType:
    case c10::TypeKind::EnumType:
    case c10::TypeKind::AnyEnumType:
    case c10::TypeKind::AnyListType:
    case c10::TypeKind::AnyTupleType:
    case c10::TypeKind::VarType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::TupleType:
      return std::ranges::all_of(type.containedTypes(),
                                 [](const c10::TypePtr& inner) { return is_value(*inner) || inner->kind() == c10::TypeKind::AnyType; });
    default:
      return false;
  }
}

bool is_text(const c10::Type& type) {
  return type.kind() == c10::TypeKind::StringType ||
         std::ranges::any_of(type.containedTypes(), [](const c10::TypePtr& inner) { return is_text(*inner); });
}

// Returns "add" for "add_": an operator's other form may do what its in-place form may. "__iadd__" stays.
std::string_view without_in_place(std::string_view name) {
  return name.ends_with('_') && !name.ends_with("__") ? name.substr(0, name.size() - 1) : name;
}

}  // namespace

std::string refusal_of_operator(const c10::FunctionSchema& schema) {
  const std::string_view full = schema.name();
  if (!full.starts_with(kNamespace)) return "is not an operator of LibTorch that a program may call";
  const std::string_view name = without_in_place(full.substr(kNamespace.size()));
  const bool listed = name.starts_with('_') ? contains(kPrivate, name) || begins_with_one_of(kPrivateBeginning, name)
                                            : !contains(kExcluded, name) && !begins_with_one_of(kExcludedBeginning, name);
  const auto plain = [](const c10::Argument& argument) { return is_value(*argument.real_type()); };
  const bool takes_text = std::ranges::any_of(schema.arguments(), [](const c10::Argument& one) { return is_text(*one.real_type()); });
  const bool text_listed = name.starts_with('_') || contains(kWithTexts, name) || begins_with_one_of(kWithTextsBeginning, name);
  if (listed && std::ranges::all_of(schema.arguments(), plain) && std::ranges::all_of(schema.returns(), plain) &&
      (!takes_text || text_listed))
    return "";
  return "is not an operator that a program may call: programs may only compute";
}

}  // namespace mptune::profiler
