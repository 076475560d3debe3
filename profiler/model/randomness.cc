#include "mptune/profiler/model/randomness.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/dropout_native.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "mptune/profiler/model/scalar_types.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {

namespace {

thread_local DrawScope* scope = nullptr;

constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t kFirst = 0xbf58476d1ce4e5b9ULL;
constexpr std::uint64_t kSecond = 0x94d049bb133111ebULL;

// The output function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * kFirst;
  x = (x ^ (x >> 27)) * kSecond;
  return x ^ (x >> 31);
}

constexpr std::uint64_t sample_key(std::uint64_t key, std::int64_t sample) {
  return mixed(key ^ mixed(static_cast<std::uint64_t>(sample) + kStride));
}

// The upper half of the hash lies below this with probability `keep`.
std::uint64_t threshold(double keep) {
  return static_cast<std::uint64_t>(std::llround(std::clamp(keep, 0.0, 1.0) * 4294967296.0));
}

template <class Number>
void fill(Number* values, std::int64_t first, std::int64_t last, std::uint64_t key, std::int64_t first_sample, std::int64_t part,
          std::uint64_t below) {
  while (first < last) {
    const std::uint64_t start = sample_key(key, first_sample + first / part);
    const std::int64_t end = std::min(last, (first / part + 1) * part);
    std::uint64_t counter = start + static_cast<std::uint64_t>(first % part) * kStride;
    for (; first < end; ++first, counter += kStride) values[first] = mixed(counter) >> 32 < below ? Number(1) : Number(0);
  }
}

void fill_mask(const at::Tensor& mask, std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep) {
  constexpr std::int64_t kGrain = 1 << 15;
  const std::int64_t part = mask.numel() / samples;
  AT_DISPATCH_FLOATING_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, mask.scalar_type(), "hashed_mask", [&] {
    auto* values = mask.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, mask.numel(), kGrain,
                     [&](std::int64_t first, std::int64_t last) { fill(values, first, last, key, first_sample, part, threshold(keep)); });
  });
}

at::Scalar number(std::uint64_t bits) {
  return {static_cast<std::int64_t>(bits)};
}

at::Tensor shifted(const at::Tensor& x, int by) {
  return x.bitwise_right_shift(by).bitwise_and_(number(~std::uint64_t{0} >> by));
}

at::Tensor mixed(at::Tensor x) {
  x = x.bitwise_xor(shifted(x, 30)).mul_(number(kFirst));
  x = x.bitwise_xor(shifted(x, 27)).mul_(number(kSecond));
  return x.bitwise_xor(shifted(x, 31));
}

}  // namespace

/// What the overriding kernels see of the scope.
struct Draws {
  static std::uint64_t next_key() {
    const DrawScope::Place& place = scope->place_;
    std::uint64_t key = mixed(place.seed + kStride);
    for (const std::uint64_t part : {static_cast<std::uint64_t>(place.step), static_cast<std::uint64_t>(place.layer), scope->calls_++})
      key = mixed(key ^ mixed(part + kStride));
    return key;
  }

  [[noreturn]] static void refuse(const Error& error) {
    scope->refusal_ = std::make_exception_ptr(error);
    throw error;
  }

  static void check(const at::Tensor& drawn) {
    const DrawScope::Place& place = scope->place_;
    if (drawn.dim() > 0 && drawn.size(0) % place.samples == 0) return;
    refuse({"random numbers of shape " + shape_text(drawn.sizes()) + " for a micro-batch of " + std::to_string(place.samples) +
                " samples do not belong to samples",
            "layer " + place.name, "keep the samples in the first dimension of what dropout is applied to, or set the dropout to 0"});
  }

  static at::Tensor& draw(at::Tensor& self, double keep) {
    check(self);
    const auto& [seed, step, layer, name, first_sample, samples] = scope->place_;
    const std::uint64_t key = next_key();
    const bool in_place = self.is_cpu() && self.is_contiguous() && !self.requires_grad() && at::isFloatingType(self.scalar_type());
    if (!in_place) return self.copy_(hashed_mask(key, first_sample, samples, keep, self.sizes(), self.options().requires_grad(false)));
    fill_mask(self, key, first_sample, samples, keep);
    self.unsafeGetTensorImpl()->bump_version();
    return self;
  }

  static const std::string& layer_name() { return scope->place_.name; }
};

namespace {

// The kernels that LibTorch registered for all kinds of Autograd alike are still those of its key for other devices.
c10::DispatchKeySet without_overriding(c10::DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset).add(c10::DispatchKey::AutogradOther);
}

at::Tensor& bernoulli(c10::DispatchKeySet keys, at::Tensor& self, double p, std::optional<at::Generator> generator) {
  if (scope != nullptr && !generator.has_value() && p >= 0 && p <= 1 && self.numel() > 0) return Draws::draw(self, p);
  static const auto native = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("aten::bernoulli_", "float")
                                 .typed<at::Tensor&(at::Tensor&, double, std::optional<at::Generator>)>();
  return native.redispatch(without_overriding(keys), self, p, std::move(generator));
}

// GPUs have a kernel of their own for this, which draws inside.
at::Tensor dropout(const at::Tensor& input, double p, bool train) {
  if (scope == nullptr || !train || !(p > 0 && p < 1) || input.numel() == 0) return at::native::dropout(input, p, train);
  return input * at::empty_like(input, at::TensorOptions().requires_grad(false)).bernoulli_(1 - p).div_(1 - p);
}

// So have their fused attentions.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
                     double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  if (scope == nullptr || dropout_p <= 0)
    return at::native::scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa);
  // That kernel adds its mask; a boolean one says what may be seen.
  std::optional<at::Tensor> added = mask;
  if (mask && mask->defined() && mask->scalar_type() == at::kBool)
    added = at::zeros(mask->sizes(), query.options().requires_grad(false))
                .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  return std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, added, dropout_p, is_causal, {}, scale, enable_gqa));
}

// The dropout between the layers of an LSTM, GRU or RNN sees (time, samples, features), whatever its caller gave it.
void recurrent(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto argument = [&](const char* name) -> const c10::IValue& {
    const auto index = op.schema().argumentIndexWithName(name);
    return torch::jit::peek(*stack, static_cast<std::size_t>(index.value()), op.schema().arguments().size());
  };
  if (scope != nullptr && argument("dropout").toDouble() > 0 && argument("train").toBool())
    Draws::refuse({op.schema().name() + " with dropout between its layers draws masks that depend on the partition",
                   "layer " + Draws::layer_name(),
                   "set its dropout to 0 and put Dropout modules between recurrent layers of one layer each"});
  op.redispatchBoxed(without_overriding(keys), stack);
}

void override_operators() {
  for (const c10::DispatchKey key : {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA}) {
    // Never destroyed: operators outlive every static object.
    auto* library = new torch::Library(torch::Library::IMPL, "aten", key, "mptune", 0);
    library->impl("bernoulli_.float", TORCH_FN(bernoulli));
    library->impl("dropout", TORCH_FN(dropout));
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

at::Tensor detail::hashed_mask_by_operations(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep,
                                             at::IntArrayRef sizes, const at::TensorOptions& options) {
  const at::NoGradGuard no_gradients;
  const std::int64_t part = c10::multiply_integers(sizes) / samples;
  const auto integers = options.dtype(at::kLong);
  const at::Tensor keys =
      mixed(mixed(at::arange(first_sample, first_sample + samples, integers).add_(number(kStride))).bitwise_xor_(number(key)));
  const at::Tensor counters = keys.unsqueeze(1) + at::arange(part, integers).mul_(number(kStride)).unsqueeze(0);
  return shifted(mixed(counters), 32).lt(number(threshold(keep))).view(sizes).to(options.dtype());
}

at::Tensor hashed_mask(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep, at::IntArrayRef sizes,
                       const at::TensorOptions& options) {
  if (!options.device().is_cpu()) return detail::hashed_mask_by_operations(key, first_sample, samples, keep, sizes, options);
  const bool direct = at::isFloatingType(options.dtype().toScalarType());
  const at::Tensor mask = at::empty(sizes, options.dtype(direct ? options.dtype().toScalarType() : at::kBool));
  fill_mask(mask, key, first_sample, samples, keep);
  return mask.to(options.dtype());
}

}  // namespace mptune
