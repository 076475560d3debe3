#include "tuner/runtime/between/rank_streams.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "tuner/runtime/between/tensor_text.h"

namespace mptune::tuner {
namespace {

constexpr std::int64_t kMark =
    64;  // in front of the tensors: whether the layout has changed, when they were sent; as long as tensors are aligned
constexpr std::int64_t kTimeInMark = 8;
constexpr std::size_t kMostKinds = 1 << 12;                   // then all are forgotten, on both sides
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 22;  // of a layout

at::Tensor bytes_for(std::int64_t count) {
  return at::empty({count}, at::kByte);
}

at::Tensor of_numbers(const std::vector<std::int64_t>& numbers) {
  return at::tensor(at::ArrayRef<std::int64_t>(numbers), at::kLong);
}

void forget_many(std::map<std::int64_t, TensorLayout>& layouts) {
  if (layouts.size() > kMostKinds) layouts.clear();
}

/// [bytes]
std::int64_t size_of(const TensorLayout& layout, bool with_tensors) {
  return kMark + (with_tensors ? layout.bytes : 0);
}

at::Tensor marked_message(std::int64_t bytes, RankStreams::Time sent) {
  at::Tensor message = bytes_for(bytes);
  std::fill_n(message.data_ptr<std::uint8_t>(), kMark, std::uint8_t{0});
  const RankStreams::Time::rep ticks = sent.time_since_epoch().count();
  std::memcpy(message.data_ptr<std::uint8_t>() + kTimeInMark, &ticks, sizeof ticks);
  return message;
}

// Smaller tensors are sent together: a message costs some 10 us.
constexpr std::size_t kLarge = std::size_t{1} << 16;

/// The messages of such flat tensors: the small ones, one behind the other, then each large one. Small ones are copied.
struct FlatMessages {
  explicit FlatMessages(const std::vector<at::Tensor>& flat) {
    for (const at::Tensor& tensor : flat) (tensor.nbytes() < kLarge ? small_ : all).push_back(tensor.view(at::kByte));
    if (!small_.empty()) all.insert(all.begin(), at::cat(small_));
  }
  /// Gives the small tensors what has come.
  void unpack() const {
    std::int64_t first = 0;
    for (const at::Tensor& tensor : small_) {
      at::Tensor(tensor).copy_(all.front().narrow(0, first, tensor.numel()));
      first += tensor.numel();
    }
  }
  std::vector<at::Tensor> all;

 private:
  std::vector<at::Tensor> small_;
};

/// Flat memory for the tensors of a layout, in `places` where these lie so.
std::vector<at::Tensor> flat_memory(const TensorLayout& layout, const std::vector<at::Tensor>& places) {
  std::vector<at::Tensor> flat;
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    const TensorLayout::Place& place = layout.places[i];
    if (!place.has_memory()) continue;
    const at::Tensor own = i < places.size() ? places[i] : at::Tensor();
    const std::int64_t numbers = c10::multiply_integers(place.sizes);
    const bool lies_so =
        own.defined() && own.is_cpu() && own.scalar_type() == place.type && own.sizes() == place.sizes && own.strides() == place.strides;
    flat.push_back(lies_so ? own.detach().as_strided({numbers}, {1}) : at::empty({numbers}, place.type));
  }
  return flat;
}

}  // namespace

RankStreams::Layouts& RankStreams::layouts_of(bool sent, int other, int tag) {
  const std::lock_guard lock(mutex_);
  return (sent ? sent_ : received_)[{other, tag}];
}

void RankStreams::send_layout(int to, int tag, const TensorLayout& layout) {
  const at::Tensor numbers = of_numbers(numbers_of(layout));
  group_->send(to, tag, of_numbers({numbers.numel()}));
  group_->send(to, tag, numbers);
}

TensorLayout RankStreams::receive_layout(int from, int tag) {
  const at::Tensor length = at::zeros({1}, at::kLong);
  group_->receive(from, tag, length);
  const std::int64_t count = length.item<std::int64_t>();
  if (count < 0 || count > kMostNumbers) refuse_message();
  const at::Tensor numbers = at::zeros({count}, at::kLong);
  group_->receive(from, tag, numbers);
  return layout_from({numbers.const_data_ptr<std::int64_t>(), numbers.const_data_ptr<std::int64_t>() + count});
}

void RankStreams::prepare(int to, int tag, std::int64_t kind, const TensorLayout& layout, Carries carries) {
  Layouts& layouts = layouts_of(true, to, tag);
  forget_many(layouts);
  auto [known, first] = layouts.try_emplace(kind, layout);
  if (!first && known->second != layout) {
    at::Tensor changed = at::zeros({size_of(known->second, carries == Carries::tensors)}, at::kByte);
    changed.data_ptr<std::uint8_t>()[0] = 1;
    group_->send(to, tag, std::move(changed));
    known->second = layout;
    first = true;
  }
  if (first) send_layout(to, tag, layout);
}

void RankStreams::send(int to, int tag, std::int64_t kind, const std::vector<at::Tensor>& tensors, Time sent) {
  const TensorLayout layout = layout_of(tensors);
  prepare(to, tag, kind, layout, Carries::tensors);
  at::Tensor message = marked_message(size_of(layout, true), sent);
  pack(tensors, layout, message, kMark);
  group_->send(to, tag, std::move(message));
}

void RankStreams::announce(int to, int tag, std::int64_t kind, const TensorLayout& layout, Time sent) {
  prepare(to, tag, kind, layout, Carries::nothing);
  group_->send(to, tag, marked_message(kMark, sent));
}

RankStreams::Bytes RankStreams::receive_bytes(int from, int tag, std::int64_t kind, Carries carries) {
  const bool tensors = carries == Carries::tensors;
  Layouts& layouts = layouts_of(false, from, tag);
  forget_many(layouts);
  auto known = layouts.find(kind);
  if (known == layouts.end()) known = layouts.emplace(kind, receive_layout(from, tag)).first;
  at::Tensor message = bytes_for(size_of(known->second, tensors));
  group_->receive(from, tag, message);
  if (message.const_data_ptr<std::uint8_t>()[0] != 0) {
    known->second = receive_layout(from, tag);
    message = bytes_for(size_of(known->second, tensors));
    group_->receive(from, tag, message);
  }
  Time::rep ticks = 0;
  std::memcpy(&ticks, message.const_data_ptr<std::uint8_t>() + kTimeInMark, sizeof ticks);
  return {&known->second, std::move(message), Time(Time::duration(ticks))};
}

RankStreams::Received RankStreams::receive_message(int from, int tag, std::int64_t kind) {
  const Bytes bytes = receive_bytes(from, tag, kind, Carries::tensors);
  return {unpack(*bytes.layout, bytes.message, kMark), bytes.sent};
}

RankStreams::Announced RankStreams::receive_announced(int from, int tag, std::int64_t kind) {
  const Bytes bytes = receive_bytes(from, tag, kind, Carries::nothing);
  return {*bytes.layout, bytes.sent};
}

void RankStreams::send_in_place(int to, int tag, std::int64_t kind, const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_gradients;
  const TensorLayout layout = layout_of(tensors);
  announce(to, tag, kind, layout);
  for (const at::Tensor& message : FlatMessages(flat_tensors(tensors, layout)).all) group_->send(to, tag, message);
}

std::vector<at::Tensor> RankStreams::receive_in_place(int from, int tag, std::int64_t kind, const std::vector<at::Tensor>& places) {
  const at::NoGradGuard no_gradients;
  const TensorLayout layout = receive_announced(from, tag, kind).layout;
  const std::vector<at::Tensor> flat = flat_memory(layout, places);
  const FlatMessages messages(flat);
  group_->receive_all(from, tag, messages.all);
  messages.unpack();
  return from_flat(layout, flat);
}

std::vector<at::Tensor> RankStreams::exchange_tensors(int tag, const at::Tensor& own) {
  for (int other = 0; other < group_->size(); ++other)
    if (other != group_->rank()) send(other, tag, 0, {own});
  std::vector<at::Tensor> all;
  for (int other = 0; other < group_->size(); ++other) all.push_back(other == group_->rank() ? own : receive_one(other, tag, 0));
  return all;
}

at::Tensor RankStreams::receive_one(int from, int tag, std::int64_t kind) {
  const std::vector<at::Tensor> tensors = receive(from, tag, kind);
  if (tensors.size() != 1 || !tensors[0].defined()) refuse_message();
  return tensors[0];
}

std::vector<std::int64_t> RankStreams::receive_numbers(int from, int tag, std::int64_t kind, std::size_t count) {
  std::vector<std::int64_t> numbers = whole_numbers_in(receive_one(from, tag, kind));
  if (numbers.size() != count) refuse_message();
  return numbers;
}

void RankStreams::send_numbers(int to, int tag, std::int64_t kind, const std::vector<std::int64_t>& numbers) {
  send(to, tag, kind, {of_numbers(numbers)});
}

std::vector<std::vector<double>> RankStreams::exchange(int tag, const std::vector<double>& own) {
  std::vector<std::vector<double>> all = exchange_lists(tag, own);
  for (const std::vector<double>& numbers : all)
    if (numbers.size() != own.size()) refuse_message();
  return all;
}

std::vector<std::vector<double>> RankStreams::exchange_lists(int tag, const std::vector<double>& own) {
  std::vector<std::vector<double>> all;
  for (const at::Tensor& numbers : exchange_tensors(tag, at::tensor(at::ArrayRef<double>(own), at::kDouble)))
    all.push_back(numbers_in(numbers));
  return all;
}

std::vector<std::vector<std::string>> RankStreams::exchange_lines(int tag, const std::vector<std::string>& own) {
  std::vector<std::vector<std::string>> all;
  for (const std::string& text : exchange_texts(tag, join(own, "\n"))) {
    all.push_back(split(text, '\n'));
    if (all.back().size() != std::max<std::size_t>(1, own.size())) refuse_message();
  }
  return all;
}

std::vector<std::string> RankStreams::exchange_texts(int tag, const std::string& own) {
  std::vector<std::string> all;
  for (const at::Tensor& text : exchange_tensors(tag, text_as_tensor(own))) all.push_back(text_in(text));
  return all;
}

}  // namespace mptune::tuner
