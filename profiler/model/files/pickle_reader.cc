#include <algorithm>
#include <bit>
#include <cstring>

#include "profiler/model/files/pickle.h"
#include "profiler/model/layers/scalar_types.h"

namespace mptune::profiler {
namespace {

constexpr std::int64_t kMostPickleDimensions = 64;
constexpr std::size_t kMostItems = 10'000;

template <class T>
PicklePointer make(T value) {
  return std::make_shared<PickleValue>(PickleValue{std::move(value)});
}

template <class T>
T& get(const PicklePointer& value, const char* expected) {
  auto* content = std::get_if<T>(&value->content);
  if (content == nullptr) throw PickleError(std::string("expected ") + expected);
  return *content;
}

std::vector<std::int64_t> integers(const PicklePointer& value, const char* expected) {
  std::vector<std::int64_t> result;
  for (const auto& item : get<PickleSequence>(value, expected).items) result.push_back(get<std::int64_t>(item, expected));
  return result;
}

// Throws if a view exceeds its storage. It spans 1 + sum((size - 1) * stride) elements.
void check_view(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides, std::int64_t offset, std::int64_t numel) {
  if (sizes.size() != strides.size() || static_cast<std::int64_t>(sizes.size()) > kMostPickleDimensions || offset < 0)
    throw PickleError("malformed tensor");
  std::int64_t elements = 1;
  std::int64_t last = offset;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t step = 0;
    if (sizes[i] < 0 || strides[i] < 0 || __builtin_mul_overflow(elements, sizes[i], &elements) ||
        __builtin_mul_overflow(std::max<std::int64_t>(0, sizes[i] - 1), strides[i], &step) || __builtin_add_overflow(last, step, &last))
      throw PickleError("malformed tensor");
  }
  if (elements > numel || (elements > 0 && last >= numel))
    throw PickleError("a tensor reaches outside its storage (expanded tensors must be made contiguous before they are saved)");
}

class Machine {
 public:
  Machine(std::string_view bytes, const StorageReader& storage) : bytes_(bytes), storage_(storage) {}
  // Empties every container while this list still holds its items: destroying a million nested containers recursively would overflow
  // the stack.
  ~Machine() {
    for (const auto& value : containers_)
      if (value != result_) value->content = PickleNone{};
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Returns tensors nested in the result, before it is emptied. Items shared by several containers count each time.
  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> found;
    std::vector<PicklePointer> open{result_};
    std::size_t items = 0;
    const auto count = [&](std::size_t more) {
      items += more;
      if (items > kMostItems) throw PickleError("it holds more than " + std::to_string(kMostItems) + " items");
    };
    while (!open.empty()) {
      const auto value = open.back();
      open.pop_back();
      if (const auto* tensor = std::get_if<at::Tensor>(&value->content)) {
        found.push_back(*tensor);
      } else if (const auto* sequence = std::get_if<PickleSequence>(&value->content)) {
        count(sequence->items.size());
        open.insert(open.end(), sequence->items.rbegin(), sequence->items.rend());
      } else if (const auto* dict = std::get_if<PickleDict>(&value->content)) {
        count(dict->items.size());
        std::for_each(dict->items.rbegin(), dict->items.rend(), [&](const auto& item) { open.push_back(item.second); });
      }
    }
    return found;
  }

  PicklePointer run() {
    for (;;) {
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') return result_ = pop();
      if (!constant(code) && !container(code) && !memory(code) && !object(code))
        throw PickleError("it holds Python objects that are not tensors (operation " + std::to_string(code) + ")");
    }
  }

 private:
  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - position_) throw PickleError("the data end too early");
    const auto part = bytes_.substr(position_, count);
    position_ += count;
    return part;
  }
  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string line() {
    const auto end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) throw PickleError("the data end too early");
    const std::string text(bytes_.substr(position_, end - position_));
    position_ = end + 1;
    return text;
  }

  void push(PicklePointer value) { stack_.push_back(std::move(value)); }
  template <class Container>
  PicklePointer own(Container container) {
    return containers_.emplace_back(make(std::move(container)));
  }
  PicklePointer& top() {
    if (stack_.empty()) throw PickleError("malformed data");
    return stack_.back();
  }
  PicklePointer pop() {
    auto value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<PicklePointer> pop_to_mark() {
    for (std::size_t i = stack_.size(); i-- > 0;) {
      if (std::holds_alternative<PickleMark>(stack_[i]->content)) {
        std::vector<PicklePointer> items(stack_.begin() + static_cast<std::ptrdiff_t>(i) + 1, stack_.end());
        stack_.resize(i);
        return items;
      }
    }
    throw PickleError("malformed data");
  }

  std::int64_t long_integer() {
    const auto count = number<std::uint8_t>();
    if (count > 8) throw PickleError("an integer of more than 64 bits");
    const auto digits = take(count);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) value |= static_cast<std::uint64_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
    const bool negative = count > 0 && (static_cast<unsigned char>(digits[count - 1U]) & 0x80U) != 0;
    if (negative && count < 8) value |= ~std::uint64_t{0} << (8 * count);
    return static_cast<std::int64_t>(value);
  }
  double big_endian_double() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
    return std::bit_cast<double>(bits);
  }

  bool constant(unsigned char code) {
    switch (code) {
      case 0x80:
        (void)take(1);
        return true;  // PROTO
      case 0x95:
        (void)take(8);
        return true;  // FRAME
      case 'N':
        push(make(PickleNone{}));
        return true;
      case 0x88:
        push(make(true));
        return true;
      case 0x89:
        push(make(false));
        return true;
      case 'K':
        push(make(std::int64_t{number<std::uint8_t>()}));
        return true;  // BININT1
      case 'M':
        push(make(std::int64_t{number<std::uint16_t>()}));
        return true;  // BININT2
      case 'J':
        push(make(std::int64_t{number<std::int32_t>()}));
        return true;  // BININT
      case 0x8a:
        push(make(long_integer()));
        return true;  // LONG1
      case 'G':
        push(make(big_endian_double()));
        return true;  // BINFLOAT
      case 'X':
        push(make(std::string(take(number<std::uint32_t>()))));
        return true;  // BINUNICODE
      case 0x8c:
        push(make(std::string(take(number<std::uint8_t>()))));
        return true;  // SHORT_BINUNICODE
      default:
        return false;
    }
  }

  bool container(unsigned char code) {
    switch (code) {
      case '(':
        push(make(PickleMark{}));
        return true;
      case '}':
        push(own(PickleDict{}));
        return true;
      case ']':
      case ')':
        push(own(PickleSequence{}));
        return true;
      case 't':
        push(own(PickleSequence{pop_to_mark()}));
        return true;
      case 0x85:
        tuple(1);
        return true;
      case 0x86:
        tuple(2);
        return true;
      case 0x87:
        tuple(3);
        return true;
      case 's':
        set_items(tail(2));
        return true;
      case 'u':
        set_items(pop_to_mark());
        return true;
      case 'a':
        append(tail(1));
        return true;
      case 'e':
        append(pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool memory(unsigned char code) {
    switch (code) {
      case 'q':
        memo_[number<std::uint8_t>()] = top();
        return true;
      case 'r':
        memo_[number<std::uint32_t>()] = top();
        return true;
      case 0x94: {
        const auto next = static_cast<std::uint32_t>(memo_.size());
        memo_[next] = top();
        return true;
      }
      case 'h':
        recall(number<std::uint8_t>());
        return true;
      case 'j':
        recall(number<std::uint32_t>());
        return true;
      case '0':
        (void)pop();
        return true;
      default:
        return false;
    }
  }

  bool object(unsigned char code) {
    switch (code) {
      case 'c': {
        const auto module = line();
        push(make(PickleGlobal{module + "." + line()}));
        return true;
      }
      case 0x93: {
        const auto name = pop();
        const auto module = pop();
        push(make(PickleGlobal{get<std::string>(module, "a name") + "." + get<std::string>(name, "a name")}));
        return true;
      }
      case 'Q':
        push(persistent(pop()));
        return true;
      case 'R': {
        const auto arguments = pop();
        const auto function = pop();
        push(call(get<PickleGlobal>(function, "a function").name, get<PickleSequence>(arguments, "arguments").items));
        return true;
      }
      case 'b': {  // BUILD: what state_dict() hangs on its OrderedDict (_metadata) says nothing about tensors.
        (void)pop();
        (void)get<PickleDict>(top(), "a dict");
        return true;
      }
      default:
        return false;
    }
  }

  std::vector<PicklePointer> tail(std::size_t count) {
    if (stack_.size() < count) throw PickleError("malformed data");
    std::vector<PicklePointer> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  void tuple(std::size_t count) { push(own(PickleSequence{tail(count)})); }
  // Refuses a container that holds itself, which would never be freed.
  void refuse_cycle(const PicklePointer& value) {
    if (value == top()) throw PickleError("a container holds itself");
  }
  void set_items(std::vector<PicklePointer> items) {
    auto& dict = get<PickleDict>(top(), "a dict");
    if (items.size() % 2 != 0) throw PickleError("malformed data");
    for (std::size_t i = 0; i < items.size(); i += 2) {
      refuse_cycle(items[i]);
      refuse_cycle(items[i + 1]);
      dict.items.emplace_back(std::move(items[i]), std::move(items[i + 1]));
    }
  }
  void append(std::vector<PicklePointer> items) {
    auto& list = get<PickleSequence>(top(), "a list");
    for (auto& item : items) {
      refuse_cycle(item);
      list.items.push_back(std::move(item));
    }
  }
  void recall(std::uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) throw PickleError("malformed data");
    push(found->second);
  }

  // ('storage', torch.FloatStorage, '0', 'cpu', 640)
  static PicklePointer persistent(const PicklePointer& id) {
    const auto& items = get<PickleSequence>(id, "a storage").items;
    if (items.size() != 5 || get<std::string>(items[0], "a storage") != "storage") throw PickleError("malformed storage");
    const auto& type = get<PickleGlobal>(items[1], "a storage type").name;
    for (const auto& names : scalar_types())
      if (type == std::string("torch.") + names.storage)
        return make(PickleStorage{names.type, get<std::string>(items[2], "a storage key"), get<std::int64_t>(items[4], "a storage size")});
    throw PickleError("storages of type " + type + " are not read");
  }

  PicklePointer call(const std::string& function, const std::vector<PicklePointer>& arguments) {
    if (function == "torch._utils._rebuild_tensor_v2" && arguments.size() >= 4) {
      const auto& storage = get<PickleStorage>(arguments[0], "a storage");
      const auto offset = get<std::int64_t>(arguments[1], "an offset");
      const auto sizes = integers(arguments[2], "a shape");
      const auto strides = integers(arguments[3], "strides");
      check_view(sizes, strides, offset, storage.numel);
      return make(storage_(storage).as_strided(sizes, strides, offset));
    }
    if (function == "torch._utils._rebuild_parameter" && !arguments.empty()) return make(get<at::Tensor>(arguments[0], "a tensor"));
    if (function == "collections.OrderedDict" && arguments.empty()) return own(PickleDict{});
    throw PickleError("it holds Python objects (" + function + ")");
  }

  std::string_view bytes_;
  const StorageReader& storage_;
  std::size_t position_ = 0;
  std::vector<PicklePointer> stack_;
  std::map<std::uint32_t, PicklePointer> memo_;
  std::vector<PicklePointer> containers_;
  PicklePointer result_;
};

}  // namespace

PicklePointer read_pickle(std::string_view bytes, const StorageReader& storage) {
  return Machine(bytes, storage).run();
}

std::vector<at::Tensor> read_pickled_tensors(std::string_view bytes, const StorageReader& storage) {
  Machine machine(bytes, storage);
  (void)machine.run();
  return machine.tensors();
}

}  // namespace mptune::profiler
