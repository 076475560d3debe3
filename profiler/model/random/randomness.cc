#include "profiler/model/random/randomness.h"

#include <ATen/ATen.h>
#include <ATen/Operators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/alpha_dropout_native.h>
#include <ATen/ops/dropout_native.h>
#include <ATen/ops/feature_alpha_dropout_native.h>
#include <ATen/ops/feature_dropout_native.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/model/random/attention_in_blocks.h"
#include "profiler/model/random/hashed_numbers.h"

namespace mptune::profiler {

namespace {
thread_local DrawScope* scope = nullptr;
}

/// Access of the overriding kernels to the scope.
struct Draws {
  static bool evaluating() { return scope != nullptr && scope->place_.evaluating; }

  static std::uint64_t next_key() {
    const DrawScope::Place& place = scope->place_;
    const std::int64_t layer = scope->node_ >= 0 ? scope->node_ : place.layer;
    std::uint64_t key = hashed_key(0, place.seed);
    for (const std::uint64_t part : {static_cast<std::uint64_t>(place.step), static_cast<std::uint64_t>(layer), scope->calls_++})
      key = hashed_key(key, part);
    return key;
  }

  [[noreturn]] static void refuse(const Error& error) {
    scope->refusal_ = std::make_exception_ptr(error);
    throw error;
  }

  static SampleAxis axis_of(at::IntArrayRef sizes) {
    const DrawScope::Place& place = scope->place_;
    const SampleAxis& axis = scope->axis_;
    const bool fits = scope->node_ < 0 ? !sizes.empty() && sizes[0] % place.samples == 0
                                       : axis.dimension < 0 || (as_index(axis.dimension) < sizes.size() &&
                                                                sizes[as_index(axis.dimension)] == axis.outer * place.samples * axis.inner);
    if (fits) return scope->node_ < 0 ? SampleAxis{0, 1, sizes[0] / place.samples} : axis;
    refuse({"random numbers of shape " + shape_text(sizes) + " for a micro-batch of " + std::to_string(place.samples) +
                " samples do not belong to samples",
            "layer " + place.name, "keep the samples in the first dimension of what dropout is applied to, or set the dropout to 0"});
  }

  /// Returns a draw of the scope, which can be repeated later and elsewhere.
  static HashedDraw next(at::IntArrayRef sizes) {
    const DrawScope::Place& place = scope->place_;
    const SampleAxis axis = axis_of(sizes);
    if (axis.dimension < 0) return {.key = next_key()};
    const std::int64_t before = c10::multiply_integers(sizes.slice(0, as_index(axis.dimension)));
    return {next_key(), place.first_sample, place.samples, before * axis.outer};
  }
  /// Returns how many numbers of a tensor belong to one sample. Requires: its shape fits.
  static std::int64_t numbers_of_a_sample(at::IntArrayRef sizes) {
    return c10::multiply_integers(sizes) / (axis_of(sizes).dimension < 0 ? 1 : scope->place_.samples);
  }

  static at::Tensor mask(at::IntArrayRef sizes, double keep, const at::TensorOptions& options) {
    return hashed_mask(next(sizes), keep, sizes, options);
  }
  static at::Tensor uniform(at::IntArrayRef sizes, int digits, const at::TensorOptions& options) {
    return hashed_uniform(next(sizes), digits, sizes, options);
  }

  static at::Tensor& draw(at::Tensor& self, double keep) {
    const bool in_place = (self.is_cpu() || self.is_cuda() || self.is_meta()) && self.is_contiguous() && !self.requires_grad() &&
                          at::isFloatingType(self.scalar_type());
    if (!in_place) return self.copy_(mask(self.sizes(), keep, plain(self)));
    fill_hashed_mask(self, next(self.sizes()), keep);
    self.unsafeGetTensorImpl()->bump_version();
    return self;
  }

  static at::TensorOptions plain(const at::Tensor& like) { return like.options().requires_grad(false); }
  static const std::string& layer_name() { return scope->place_.name; }
};

namespace {

using Generator = std::optional<at::Generator>;
using c10::DispatchKeySet;

// LibTorch's own Autograd kernels are still registered under the key of other devices.
DispatchKeySet without_overriding(DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset).add(c10::DispatchKey::AutogradOther);
}

bool drawn_here(const at::Tensor& self, const Generator& generator) {
  return scope != nullptr && !generator.has_value() && self.numel() > 0;
}

// Returns as many digits as the type can hold, so that rounding never gives 1.
int digits_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 53;
    case at::kHalf:
      return 11;
    case at::kBFloat16:
      return 8;
    default:
      return 24;
  }
}

// Returns numbers uniform in (0, 1]: never 0, because a logarithm follows.
at::Tensor positive_uniform(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return Draws::uniform(sizes, 53, options).clamp_min_(std::ldexp(1.0, -54));
}

at::Tensor& bernoulli_(DispatchKeySet keys, at::Tensor& self, double p, Generator generator) {
  if (drawn_here(self, generator) && p >= 0 && p <= 1) return Draws::draw(self, p);
  return at::_ops::bernoulli__float::redispatch(without_overriding(keys), self, p, std::move(generator));
}

at::Tensor compared(const at::Tensor& like, const at::Tensor& p) {
  return Draws::uniform(like.sizes(), 53, Draws::plain(like)).lt(p.detach()).to(like.scalar_type());
}

at::Tensor& bernoulli_tensor_(DispatchKeySet keys, at::Tensor& self, const at::Tensor& p, Generator generator) {
  if (drawn_here(self, generator)) return self.copy_(compared(self, p));
  return at::_ops::bernoulli__Tensor::redispatch(without_overriding(keys), self, p, std::move(generator));
}

at::Tensor bernoulli(DispatchKeySet keys, const at::Tensor& self, Generator generator) {
  if (drawn_here(self, generator)) return compared(self, self);
  return at::_ops::bernoulli::redispatch(without_overriding(keys), self, std::move(generator));
}

at::Tensor bernoulli_p(DispatchKeySet keys, const at::Tensor& self, double p, Generator generator) {
  if (drawn_here(self, generator) && p >= 0 && p <= 1) return Draws::mask(self.sizes(), p, Draws::plain(self));
  return at::_ops::bernoulli_p::redispatch(without_overriding(keys), self, p, std::move(generator));
}

at::Tensor& uniform_(DispatchKeySet keys, at::Tensor& self, double from, double to, Generator generator) {
  if (drawn_here(self, generator) && at::isFloatingType(self.scalar_type()))
    return self.copy_(Draws::uniform(self.sizes(), digits_of(self.scalar_type()), Draws::plain(self)).mul_(to - from).add_(from));
  return at::_ops::uniform_::redispatch(without_overriding(keys), self, from, to, std::move(generator));
}

// Uses the inverse of the distribution function, so each number needs one hash.
at::Tensor& normal_(DispatchKeySet keys, at::Tensor& self, double mean, double deviation, Generator generator) {
  if (drawn_here(self, generator) && at::isFloatingType(self.scalar_type()) && deviation >= 0)
    return self.copy_(
        positive_uniform(self.sizes(), Draws::plain(self)).mul_(2).sub_(1).erfinv_().mul_(std::sqrt(2.0) * deviation).add_(mean));
  return at::_ops::normal_::redispatch(without_overriding(keys), self, mean, deviation, std::move(generator));
}

at::Tensor& exponential_(DispatchKeySet keys, at::Tensor& self, double rate, Generator generator) {
  if (drawn_here(self, generator) && at::isFloatingType(self.scalar_type()) && rate > 0)
    return self.copy_(positive_uniform(self.sizes(), Draws::plain(self)).neg_().log1p_().div_(-rate));
  return at::_ops::exponential_::redispatch(without_overriding(keys), self, rate, std::move(generator));
}

// rand and randn: LibTorch's kernels fill below the overridden keys, so they are overridden, too.
template <class Native>
at::Tensor filled_like(DispatchKeySet keys, const at::Tensor& self, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                       std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  if (scope == nullptr) return Native::redispatch(without_overriding(keys), self, type, layout, device, pinned, format);
  at::Tensor made = at::empty_like(self,
                                   at::TensorOptions(self.options())
                                       .requires_grad(false)
                                       .dtype(type.value_or(self.scalar_type()))
                                       .device(device.value_or(self.device())),
                                   format);
  return std::is_same_v<Native, at::_ops::randn_like> ? made.normal_() : made.uniform_();
}

// GPUs have a fused dropout kernel that draws its own numbers.
at::Tensor dropout(const at::Tensor& input, double p, bool train) {
  train = train && !Draws::evaluating();
  if (scope == nullptr || !train || !(p > 0 && p < 1) || input.numel() == 0) return at::native::dropout(input, p, train);
  return input * at::empty_like(input, at::TensorOptions().requires_grad(false)).bernoulli_(1 - p).div_(1 - p);
}

// The kinds of dropout that are made of operators overridden here.
using OtherDropout = at::Tensor (*)(const at::Tensor& input, double p, bool train);
template <OtherDropout native>
at::Tensor other_dropout(const at::Tensor& input, double p, bool train) {
  return native(input, p, train && !Draws::evaluating());
}
using DropoutInPlace = at::Tensor& (*)(at::Tensor& input, double p, bool train);
template <DropoutInPlace native>
at::Tensor& dropout_in_place(at::Tensor& input, double p, bool train) {
  return native(input, p, train && !Draws::evaluating());
}

// Decomposed programs call this instead of dropout.
std::tuple<at::Tensor, at::Tensor> native_dropout(DispatchKeySet keys, const at::Tensor& input, double p, std::optional<bool> train) {
  if (Draws::evaluating()) train = false;
  if (scope == nullptr || !train.value_or(true) || !(p > 0 && p < 1) || input.numel() == 0)
    return at::_ops::native_dropout::redispatch(without_overriding(keys), input, p, train);
  const at::Tensor mask = Draws::mask(input.sizes(), 1 - p, Draws::plain(input).dtype(at::kBool));
  return {input * mask * (1 / (1 - p)), mask};
}

// Attention with dropout goes through its queries in blocks if a sample has more weights than kFewWeights. On one CPU core 512 queries of 8
// heads (half of that) take 1.6 times as long in blocks, 1024 as long as at once.
constexpr std::int64_t kFewWeights = 1 << 22;
constexpr std::int64_t kWeightsOfABlock = 1 << 20;

/// Returns the queries in a block of attention with dropout; all of them if blocks are not worth while or do not fit.
std::int64_t queries_of_a_block(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const std::optional<at::Tensor>& mask) {
  const std::int64_t all = query.size(-2);
  const auto outer = [](const at::Tensor& tensor) { return tensor.sizes().slice(0, as_index(tensor.dim() - 2)); };
  if (query.dim() < 3 || outer(query) != outer(key) || outer(query) != outer(value) || (mask && mask->requires_grad())) return all;
  std::vector<std::int64_t> sizes = query.sizes().vec();
  sizes.back() = key.size(-2);
  // Blocks depend on what a sample has, never on how many samples there are.
  const std::int64_t axis = Draws::axis_of(sizes).dimension, weights = Draws::numbers_of_a_sample(sizes);
  if (axis >= query.dim() - 2 || weights <= kFewWeights) return all;
  return std::max<std::int64_t>(1, all * kWeightsOfABlock / weights);
}

at::Tensor drawn_in_blocks(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
                           double keep, AttentionBlocks blocks) {
  std::vector<HashedDraw> draws;
  std::vector<std::int64_t> sizes = query.sizes().vec();
  sizes.back() = key.size(-2);
  for (std::int64_t first = 0; first < query.size(-2); first += blocks.queries) {
    sizes[sizes.size() - 2] = std::min(blocks.queries, query.size(-2) - first);
    draws.push_back(Draws::next(sizes));
  }
  blocks.multiplier = [draws = std::move(draws), keep, options = Draws::plain(query)](std::int64_t block, at::IntArrayRef shape) {
    return hashed_mask(draws[as_index(block)], keep, shape, options).div_(keep);
  };
  return attention_in_blocks(query, key, value, mask, blocks);
}

// Fused attention kernels of GPUs draw their own numbers, too.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
                     double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  if (Draws::evaluating()) dropout_p = 0;
  if (scope == nullptr || dropout_p <= 0)
    return at::native::scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa);
  // The kernel adds its mask, so a boolean one (true: may be attended to) is converted.
  std::optional<at::Tensor> added = mask;
  if (mask && mask->defined() && mask->scalar_type() == at::kBool)
    added = at::zeros(mask->sizes(), query.options().requires_grad(false))
                .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  const std::int64_t queries = queries_of_a_block(query, key, value, added);
  if (queries < query.size(-2) && dropout_p < 1) {
    const double by_width = 1 / std::sqrt(static_cast<double>(query.size(-1)));
    return drawn_in_blocks(query, key, value, added, 1 - dropout_p, {queries, scale.value_or(by_width), is_causal, {}});
  }
  return std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, added, dropout_p, is_causal, {}, scale, enable_gqa));
}

// Dropout between the layers of an LSTM, GRU or RNN works on (time, samples, features), so its masks would depend on the partition.
// With gradients off, LibTorch computes an LSTM by another kernel, which rounds otherwise: recomputation would change bits.
void recurrent(const c10::OperatorHandle& op, DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto argument = [&](const char* name) -> const c10::IValue& {
    const auto index = op.schema().argumentIndexWithName(name);
    return torch::jit::peek(*stack, as_index(index.value()), op.schema().arguments().size());
  };
  if (Draws::evaluating()) {
    const auto index = op.schema().argumentIndexWithName("train");
    torch::jit::peek(*stack, as_index(index.value()), op.schema().arguments().size()) = false;
  }
  if (scope != nullptr && argument("dropout").toDouble() > 0 && argument("train").toBool())
    Draws::refuse({op.schema().name() + " with dropout between its layers draws masks that depend on the partition",
                   "layer " + Draws::layer_name(),
                   "set its dropout to 0 and put Dropout modules between recurrent layers of one layer each"});
  const bool recorded = at::GradMode::is_enabled();
  const at::AutoGradMode grad(recorded || scope != nullptr);
  op.redispatchBoxed(without_overriding(keys), stack);
  if (recorded || scope == nullptr) return;
  const std::size_t results = op.schema().returns().size();
  for (std::size_t i = 0; i < results; ++i) {
    c10::IValue& result = torch::jit::peek(*stack, i, results);
    result = result.toTensor().detach();
  }
}

void override_operators() {
  for (const c10::DispatchKey key : {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA}) {
    // Never deleted: operators outlive every static object.
    auto* library = new torch::Library(torch::Library::IMPL, "aten", key, "mptune", 0);
    library->impl("bernoulli_.float", TORCH_FN(bernoulli_));
    library->impl("bernoulli_.Tensor", TORCH_FN(bernoulli_tensor_));
    library->impl("bernoulli", TORCH_FN(bernoulli));
    library->impl("bernoulli.p", TORCH_FN(bernoulli_p));
    library->impl("uniform_", TORCH_FN(uniform_));
    library->impl("normal_", TORCH_FN(normal_));
    library->impl("exponential_", TORCH_FN(exponential_));
    library->impl("rand_like", TORCH_FN(filled_like<at::_ops::rand_like>));
    library->impl("randn_like", TORCH_FN(filled_like<at::_ops::randn_like>));
    library->impl("dropout", TORCH_FN(dropout));
    library->impl("native_dropout", TORCH_FN(native_dropout));
    library->impl("feature_dropout", TORCH_FN(other_dropout<&at::native::feature_dropout>));
    library->impl("alpha_dropout", TORCH_FN(other_dropout<&at::native::alpha_dropout>));
    library->impl("feature_alpha_dropout", TORCH_FN(other_dropout<&at::native::feature_alpha_dropout>));
    library->impl("dropout_", TORCH_FN(dropout_in_place<&at::native::dropout_>));
    library->impl("feature_dropout_", TORCH_FN(dropout_in_place<&at::native::feature_dropout_>));
    library->impl("alpha_dropout_", TORCH_FN(dropout_in_place<&at::native::alpha_dropout_>));
    library->impl("feature_alpha_dropout_", TORCH_FN(dropout_in_place<&at::native::feature_alpha_dropout_>));
    library->impl("scaled_dot_product_attention", TORCH_FN(attention));
    for (const char* name : {"lstm", "gru", "rnn_tanh", "rnn_relu"})
      for (const char* overload : {".input", ".data"})
        library->impl((std::string(name) + overload).c_str(), torch::CppFunction::makeFromBoxedFunction<&recurrent>());
  }
}

}  // namespace

DrawScope::DrawScope(Place place) : place_(std::move(place)), outer_(scope) {
  static const bool overridden = (override_operators(), true);
  (void)overridden;
  scope = this;
}

DrawScope::~DrawScope() {
  scope = outer_;
}

void DrawScope::at_node(std::int64_t node, const SampleAxis& axis) {
  node_ = node;
  axis_ = axis;
  calls_ = 0;
}

}  // namespace mptune::profiler
