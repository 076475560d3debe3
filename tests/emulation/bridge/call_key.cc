#include "tests/emulation/bridge/call_key.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <string_view>

namespace emulation {

namespace {

class KeyText {
 public:
  void add(const c10::IValue& value, bool by_kind) {
    if (value.isTensor()) return add(value.toTensor());
    if (value.isList()) return add(value.toListRef(), by_kind);
    if (value.isInt()) return by_kind ? add_kind('i', static_cast<double>(value.toInt())) : add_bytes('i', value.toInt());
    if (value.isDouble()) return by_kind ? add_kind('d', value.toDouble()) : add_bytes('d', value.toDouble());
    if (value.isBool()) return add_bytes('b', value.toBool());
    if (value.isComplexDouble()) return add_bytes('c', value.toComplexDouble());
    if (value.isString()) return add_text(value.toStringRef());
    add_bytes(value.isNone() ? 'n' : 'o', 0);
  }
  template <typename T>
  void add_bytes(char kind, T value) {
    text_ += kind;
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void add(const at::Tensor& tensor) {
    if (!tensor.defined()) return add_bytes('u', 0);
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    const int flags =
        (tensor.is_cuda() ? 1 : 0) | (impl.is_wrapped_number() ? 2 : 0) | (tensor.is_conj() ? 4 : 0) | (tensor.is_neg() ? 8 : 0);
    add_bytes('t', static_cast<int>(tensor.scalar_type()) << 4 | flags);
    add_bytes(':', tensor.dim());
    for (std::int64_t i = 0; i < tensor.dim(); ++i) {
      add_bytes(',', tensor.size(i));
      add_bytes(',', tensor.stride(i));
    }
  }
  void add(c10::ArrayRef<c10::IValue> elements, bool by_kind) {
    add_bytes('[', elements.size());
    for (const c10::IValue& element : elements) add(element, by_kind);
  }
  /// Kernels check at most signs, and whether a probability is one.
  void add_kind(char type, double value) {
    const int size = std::isnan(value) ? 0 : value < 0 ? 1 : value == 0 ? 2 : value < 1 ? 3 : value == 1 ? 4 : std::isinf(value) ? 5 : 6;
    add_bytes(type, size);
  }
  void add_text(std::string_view text) {
    add_bytes('s', text.size());
    text_ += text;
  }

  std::string text_;
};

}  // namespace

std::string call_key(const OperatorFacts& facts, const Values& arguments) {
  KeyText key;
  key.add_bytes('o', &facts);
  for (std::size_t i = 0; i < arguments.size(); ++i) key.add(arguments[i], facts.by_kind[i]);
  return key.take();
}

}  // namespace emulation
