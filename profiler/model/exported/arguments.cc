#include "profiler/model/exported/arguments.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

at::MemoryFormat memory_format_of(int code) {
  static const std::map<int, at::MemoryFormat> formats{{1, at::MemoryFormat::Contiguous},
                                                       {2, at::MemoryFormat::ChannelsLast},
                                                       {3, at::MemoryFormat::ChannelsLast3d},
                                                       {4, at::MemoryFormat::Preserve}};
  const auto found = formats.find(code);
  if (found == formats.end()) throw std::invalid_argument("unknown memory format " + std::to_string(code));
  return found->second;
}

at::Layout layout_of(int code) {
  if (code != 7) throw std::invalid_argument("layout " + std::to_string(code) + " (only strided tensors can be trained)");
  return at::kStrided;
}

// Wraps a Python number among tensors: type promotion treats it as a number.
at::Tensor wrapped_number(const c10::IValue& number) {
  at::Tensor tensor = at::scalar_to_tensor(number.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

template <class Number>
std::vector<int> reads_of(const std::vector<ProgramNumber<Number>>& numbers) {
  std::vector<int> reads;
  for (const auto& number : numbers)
    if (number.value) reads.push_back(number.value->index);
  return reads;
}

template <class Number, class Read>
c10::List<Number> list_of(const std::vector<ProgramNumber<Number>>& numbers, const Read& read) {
  c10::List<Number> list;
  list.reserve(numbers.size());
  for (const auto& number : numbers) list.push_back(number.value ? read(number.value->index) : number.known);
  return list;
}

std::int64_t whole_of(const c10::IValue& value) {
  return value.isInt() ? value.toInt() : value.toSymInt().expect_int();
}

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace

at::ScalarType scalar_type_of(int code) {
  static const std::map<int, at::ScalarType> types{{1, at::kByte},
                                                   {2, at::kChar},
                                                   {3, at::kShort},
                                                   {4, at::kInt},
                                                   {5, at::kLong},
                                                   {6, at::kHalf},
                                                   {7, at::kFloat},
                                                   {8, at::kDouble},
                                                   {9, at::kComplexHalf},
                                                   {10, at::kComplexFloat},
                                                   {11, at::kComplexDouble},
                                                   {12, at::kBool},
                                                   {13, at::kBFloat16},
                                                   {28, at::kUInt16},
                                                   {29, at::kFloat8_e4m3fn},
                                                   {30, at::kFloat8_e5m2},
                                                   {31, at::kFloat8_e4m3fnuz},
                                                   {32, at::kFloat8_e5m2fnuz}};
  const auto found = types.find(code);
  if (found == types.end()) throw std::invalid_argument("unknown element type " + std::to_string(code));
  return found->second;
}

/// Converts an argument to the type of an operator's parameter.
class ArgumentBinder {
 public:
  explicit ArgumentBinder(const c10::TypePtr& type) : type_(type) {
    if (!type_) return;
    if (const auto optional = type_->cast<c10::OptionalType>()) type_ = optional->getElementType();
  }

  BoundArgument bind(const ProgramArgument& argument) {
    std::visit(
        Overloaded{[&](const ProgramNone&) { constant({}); }, [&](const ProgramValue& value) { bind_value(value); },
                   [&](const ProgramTensors& tensors) { bind_tensors(tensors); },
                   [&](std::int64_t number) { bind_number(c10::IValue(number)); }, [&](double number) { bind_number(c10::IValue(number)); },
                   [&](bool truth) { bind_number(c10::IValue(truth)); }, [&](const ProgramInts& list) { bind_ints(list); },
                   [&](const ProgramFloats& list) { bind_list(list, BoundArgument::Form::floats, bound_.floats_); },
                   [&](const ProgramBools& list) { bind_list(list, BoundArgument::Form::bools, bound_.bools_); },
                   [&](const std::string& text) { constant(text); },
                   [&](const std::vector<std::string>& texts) { constant(c10::List<std::string>(texts)); },
                   [&](const ProgramScalarType& type) { constant(static_cast<std::int64_t>(scalar_type_of(type.code))); },
                   [&](const ProgramLayout& layout) { constant(static_cast<std::int64_t>(layout_of(layout.code))); },
                   [&](const ProgramMemoryFormat& format) { constant(static_cast<std::int64_t>(memory_format_of(format.code))); },
                   [&](const ProgramDevice&) { bound_.form_ = BoundArgument::Form::device; },
                   [&](const ProgramComplex& number) { bind_number(c10::IValue(c10::complex<double>(number.real, number.imaginary))); },
                   [&](const ProgramRegion&) { throw std::invalid_argument("a region where a value belongs"); },
                   [&](const std::vector<std::vector<std::int64_t>>&) { throw std::invalid_argument("a list of lists of integers"); }},
        argument);
    return std::move(bound_);
  }

 private:
  [[nodiscard]] bool takes(c10::TypeKind kind) const { return type_ && type_->kind() == kind; }
  void constant(c10::IValue value) { bound_.constant_ = std::move(value); }

  /// Refuses plain numbers for element types, layouts and memory formats: LibTorch would look them up unchecked.
  void check_no_code() const {
    for (const c10::TypeKind kind : {c10::TypeKind::ScalarTypeType, c10::TypeKind::LayoutType, c10::TypeKind::MemoryFormatType})
      if (takes(kind)) throw std::invalid_argument("a number where an element type, layout or memory format belongs");
  }

  void bind_value(const ProgramValue& value) {
    check_no_code();
    bound_.form_ = BoundArgument::Form::value;
    bound_.reads_ = {value.index};
    if (takes(c10::TypeKind::TensorType)) bound_.convert_ = BoundArgument::Convert::to_tensor;
    if (takes(c10::TypeKind::FloatType)) bound_.convert_ = BoundArgument::Convert::to_float;
  }

  void bind_number(const c10::IValue& number) {
    check_no_code();
    if (takes(c10::TypeKind::TensorType)) return constant(wrapped_number(number));
    if (takes(c10::TypeKind::FloatType) && number.isInt()) return constant(static_cast<double>(number.toInt()));
    if (takes(c10::TypeKind::FloatType) && number.isBool()) return constant(number.toBool() ? 1.0 : 0.0);
    if (const auto list = type_ ? type_->cast<c10::ListType>() : nullptr) {
      // int[2] parameters accept one integer for all elements.
      if (list->getElementType()->kind() == c10::TypeKind::IntType && number.isInt())
        return constant(c10::List<std::int64_t>({number.toInt()}));
    }
    constant(number);
  }

  void bind_tensors(const ProgramTensors& tensors) {
    const auto list = type_ ? type_->cast<c10::ListType>() : nullptr;
    const bool optional = list && list->getElementType()->kind() == c10::TypeKind::OptionalType;
    const bool missing = std::any_of(tensors.begin(), tensors.end(), [](const ProgramValue& value) { return value.index < 0; });
    if (missing && !optional && type_) throw std::invalid_argument("a list with None where tensors belong");
    bound_.form_ = optional || missing ? BoundArgument::Form::optional_tensors : BoundArgument::Form::tensors;
    bound_.tensors_ = tensors;
    for (const ProgramValue& value : tensors)
      if (value.index >= 0) bound_.reads_.push_back(value.index);
  }

  void bind_ints(const ProgramInts& list) {
    const auto type = type_ ? type_->cast<c10::ListType>() : nullptr;
    if (!type || type->getElementType()->kind() != c10::TypeKind::FloatType)
      return bind_list(list, BoundArgument::Form::ints, bound_.ints_);
    ProgramFloats floats;
    for (const auto& number : list) floats.push_back({static_cast<double>(number.known), number.value});
    bind_list(floats, BoundArgument::Form::floats, bound_.floats_);
  }

  template <class Number>
  void bind_list(const std::vector<ProgramNumber<Number>>& list, BoundArgument::Form form, std::vector<ProgramNumber<Number>>& place) {
    bound_.reads_ = reads_of(list);
    if (bound_.reads_.empty()) return constant(list_of(list, [](int) { return Number{}; }));
    bound_.form_ = form;
    place = list;
  }

  c10::TypePtr type_;
  BoundArgument bound_;
};

BoundArgument BoundArgument::bind(const ProgramArgument& argument, const c10::TypePtr& type) {
  return ArgumentBinder(type).bind(argument);
}
BoundArgument BoundArgument::bind(const ProgramArgument& argument) {
  return ArgumentBinder(nullptr).bind(argument);
}
BoundArgument BoundArgument::constant(c10::IValue value) {
  BoundArgument bound;
  bound.constant_ = std::move(value);
  return bound;
}
BoundArgument BoundArgument::device() {
  BoundArgument bound;
  bound.form_ = Form::device;
  return bound;
}

c10::IValue BoundArgument::value(const ProgramValues& values, at::Device device) const {
  const auto at = [&](int index) -> const c10::IValue& { return values[as_index(index)]; };
  switch (form_) {
    case Form::constant:
      return constant_;
    case Form::device:
      return device;
    case Form::value: {
      const c10::IValue& found = at(reads_[0]);
      if (convert_ == Convert::to_tensor && !found.isTensor() && !found.isNone()) return wrapped_number(found);
      if (convert_ == Convert::to_float && found.isInt()) return static_cast<double>(found.toInt());
      return found;
    }
    case Form::tensors: {
      c10::List<at::Tensor> list;
      for (const ProgramValue& tensor : tensors_) list.push_back(at(tensor.index).toTensor());
      return list;
    }
    case Form::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (const ProgramValue& tensor : tensors_)
        list.push_back(tensor.index < 0 ? std::optional<at::Tensor>() : std::optional(at(tensor.index).toTensor()));
      return list;
    }
    case Form::ints:
      return list_of(ints_, [&](int index) { return whole_of(at(index)); });
    case Form::floats:
      return list_of(floats_, [&](int index) { return at(index).isInt() ? static_cast<double>(at(index).toInt()) : at(index).toDouble(); });
    case Form::bools:
      return list_of(bools_, [&](int index) { return at(index).toBool(); });
  }
  return {};
}

}  // namespace mptune::profiler
