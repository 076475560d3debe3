#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tuner/runtime/between/rank_group.h"
#include "tuner/runtime/between/tensor_layout.h"

namespace mptune::tuner {

/// Carries lists of tensors between ranks, in streams: those of one tag from one rank to another. How the tensors of a message lie travels
/// with the first of its `kind` (a number that both sides choose alike), and again where it has changed. Thread-safe; one thread at a time
/// for a stream.
///
///     first of a kind:   length, layout, [0 | tensors]         later:   [0 | tensors]         changed:   [1 | -], length, layout, [0 |
///     tensors]
class RankStreams {
 public:
  explicit RankStreams(std::shared_ptr<RankGroup> group) : group_(std::move(group)) {}

  [[nodiscard]] RankGroup& group() const { return *group_; }
  using Time = std::chrono::steady_clock::time_point;
  struct Received {
    std::vector<at::Tensor> tensors;
    Time sent;  ///< on the sender's clock
  };

  /// Of host memory. Copies the tensors, and does not wait for the receiver. `sent` travels with them.
  void send(int to, int tag, std::int64_t kind, const std::vector<at::Tensor>& tensors, Time sent = {});
  /// Waits. The tensors are allocated by the calling thread. Throws what RankGroup::receive() throws.
  [[nodiscard]] Received receive_message(int from, int tag, std::int64_t kind);
  [[nodiscard]] std::vector<at::Tensor> receive(int from, int tag, std::int64_t kind) { return receive_message(from, tag, kind).tensors; }
  /// A message of one tensor. Throws Error (internal) for another one.
  [[nodiscard]] at::Tensor receive_one(int from, int tag, std::int64_t kind);
  /// A message of so many whole numbers. Throws Error (internal) for another one.
  [[nodiscard]] std::vector<std::int64_t> receive_numbers(int from, int tag, std::int64_t kind, std::size_t count);
  void send_numbers(int to, int tag, std::int64_t kind, const std::vector<std::int64_t>& numbers);

  /// The same without copies of large tensors. Nobody may change them before the receiver has them, which a later message of its own shows.
  void send_in_place(int to, int tag, std::int64_t kind, const std::vector<at::Tensor>& tensors);
  /// Waits for what was sent so. A tensor that lies like the one of its index in `places` (as many, or none; undefined: no place) is
  /// received into that one's memory.
  [[nodiscard]] std::vector<at::Tensor> receive_in_place(int from, int tag, std::int64_t kind, const std::vector<at::Tensor>& places = {});

  /// The same of tensors that travel another way: all about them but their memory.
  void announce(int to, int tag, std::int64_t kind, const TensorLayout& layout, Time sent = {});
  struct Announced {
    TensorLayout layout;
    Time sent;  ///< on the sender's clock
  };
  [[nodiscard]] Announced receive_announced(int from, int tag, std::int64_t kind);

  /// Every rank gives as many numbers, and gets those of all, by rank. `tag`: of this use alone. Throws what RankGroup::receive() throws,
  /// and Error (internal) for numbers of another count.
  [[nodiscard]] std::vector<std::vector<double>> exchange(int tag, const std::vector<double>& own);
  /// The same, but each rank may give another count.
  [[nodiscard]] std::vector<std::vector<double>> exchange_lists(int tag, const std::vector<double>& own);
  /// The same of a text.
  [[nodiscard]] std::vector<std::string> exchange_texts(int tag, const std::string& own);
  /// The same of as many texts without ends of lines.
  [[nodiscard]] std::vector<std::vector<std::string>> exchange_lines(int tag, const std::vector<std::string>& own);
  /// The same of a tensor.
  [[nodiscard]] std::vector<at::Tensor> exchange_tensors(int tag, const at::Tensor& own);

 private:
  using Layouts = std::map<std::int64_t, TensorLayout>;  ///< by kind
  [[nodiscard]] Layouts& layouts_of(bool sent, int other, int tag);
  void send_layout(int to, int tag, const TensorLayout& layout);
  [[nodiscard]] TensorLayout receive_layout(int from, int tag);
  /// What is in a message beside the mark.
  enum class Carries { tensors, nothing };
  /// Sends what has to go before a message: nothing, or the layout.
  void prepare(int to, int tag, std::int64_t kind, const TensorLayout& layout, Carries carries);
  struct Bytes {
    const TensorLayout* layout = nullptr;
    at::Tensor message;
    Time sent;
  };
  [[nodiscard]] Bytes receive_bytes(int from, int tag, std::int64_t kind, Carries carries);

  std::shared_ptr<RankGroup> group_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, Layouts> sent_, received_;  ///< by rank and tag
};

}  // namespace mptune::tuner
