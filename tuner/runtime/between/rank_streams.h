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

  /// Sends tensors of host memory: copies them, and does not wait for the receiver. `sent` travels with them.
  void send(int to, int tag, std::int64_t kind, const std::vector<at::Tensor>& tensors, Time sent = {});
  /// Waits for the next message. Its tensors are allocated by the calling thread. Throws what RankGroup::receive() throws.
  [[nodiscard]] Received receive_message(int from, int tag, std::int64_t kind);
  [[nodiscard]] std::vector<at::Tensor> receive(int from, int tag, std::int64_t kind) { return receive_message(from, tag, kind).tensors; }
  /// Receives a message of one tensor. Throws Error (internal) for another number of tensors.
  [[nodiscard]] at::Tensor receive_one(int from, int tag, std::int64_t kind);
  /// Receives a message of `count` whole numbers. Throws Error (internal) for other messages.
  [[nodiscard]] std::vector<std::int64_t> receive_numbers(int from, int tag, std::int64_t kind, std::size_t count);
  void send_numbers(int to, int tag, std::int64_t kind, const std::vector<std::int64_t>& numbers);

  /// Sends tensors without copying large ones. Nobody may change these before a message arrives that the receiver sent
  /// after it had them.
  void send_in_place(int to, int tag, std::int64_t kind, const std::vector<at::Tensor>& tensors);
  /// Waits for what send_in_place() sent. `places`: as many tensors as the message has, or none. Where a place is defined and lies as its
  /// tensor does, the tensor is received into its memory.
  [[nodiscard]] std::vector<at::Tensor> receive_in_place(int from, int tag, std::int64_t kind, const std::vector<at::Tensor>& places = {});

  /// Sends only the layout of tensors that travel another way.
  void announce(int to, int tag, std::int64_t kind, const TensorLayout& layout, Time sent = {});
  struct Announced {
    TensorLayout layout;
    Time sent;  ///< on the sender's clock
  };
  [[nodiscard]] Announced receive_announced(int from, int tag, std::int64_t kind);

  /// Exchanges numbers: every rank gives equally many, and gets those of all ranks, by rank. `tag`: used for nothing else. Throws what
  /// RankGroup::receive() throws, and Error (internal) where a rank gives another count.
  [[nodiscard]] std::vector<std::vector<double>> exchange(int tag, const std::vector<double>& own);
  /// Exchanges numbers of which each rank may give another count.
  [[nodiscard]] std::vector<std::vector<double>> exchange_lists(int tag, const std::vector<double>& own);
  /// Exchanges a text of each rank.
  [[nodiscard]] std::vector<std::string> exchange_texts(int tag, const std::string& own);
  /// Exchanges texts without ends of lines, of which every rank gives equally many.
  [[nodiscard]] std::vector<std::vector<std::string>> exchange_lines(int tag, const std::vector<std::string>& own);
  /// Exchanges a tensor of each rank.
  [[nodiscard]] std::vector<at::Tensor> exchange_tensors(int tag, const at::Tensor& own);

 private:
  using Layouts = std::map<std::int64_t, TensorLayout>;  ///< by kind
  [[nodiscard]] Layouts& layouts_of(bool sent, int other, int tag);
  void send_layout(int to, int tag, const TensorLayout& layout);
  [[nodiscard]] TensorLayout receive_layout(int from, int tag);
  /// What a message holds beside the mark.
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
