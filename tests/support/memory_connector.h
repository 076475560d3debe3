#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/device/gpu_communicator.h"

namespace mptune::testing {

/// Connects devices of ranks that are threads of one process, as NCCL does GPUs: nothing but the order says which tensor is which, a
/// receive returns before its tensors have come, and what waits when it is aborted goes on with memory that was never written.
class MemoryConnector final : public profiler::GpuConnector {
 public:
  /// `alike`: devices of these names are the same one.
  explicit MemoryConnector(std::vector<std::string> alike = {}) : alike_(std::move(alike)) {}

  [[nodiscard]] std::string identity_of(const Device& device) const override {
    for (const std::string& name : alike_)
      if (name == device.name()) return "one device";
    return device.name();
  }
  [[nodiscard]] std::string new_id() const override {
    ++made_;
    return std::to_string(made_);
  }
  [[nodiscard]] std::shared_ptr<profiler::GpuCommunicator> connect(const std::shared_ptr<Device>&, const std::string& id, int members,
                                                                   int member) const override {
    std::unique_lock lock(mutex_);
    auto& room = rooms_[id];
    if (!room) room = std::make_shared<Room>(members);
    ++room->there;
    changed_.notify_all();
    changed_.wait(lock, [&] { return room->there >= members; });
    return std::make_shared<Member>(room, member, sent_);
  }

  [[nodiscard]] int communicators() const { return made_; }
  /// Bytes of messages so far.
  [[nodiscard]] std::int64_t sent_bytes() const { return *sent_; }

 private:
  /// What the members of a communicator share.
  struct Room {
    explicit Room(int count) : members(count) {}
    const int members;
    int there = 0;
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::pair<int, int>, std::deque<at::Tensor>> messages;  ///< by ends
    std::map<int, std::vector<at::Tensor>> sums;                     ///< by round: what members gave
  };
  /// The end of a receive, in the order of the receives.
  class Arrival final : public Moment {
   public:
    Arrival(std::shared_ptr<Room> room, std::shared_ptr<std::atomic<bool>> aborted, std::pair<int, int> ends, std::vector<at::Tensor> into,
            std::shared_ptr<const Arrival> before)
        : room_(std::move(room)), aborted_(std::move(aborted)), ends_(ends), into_(std::move(into)), before_(std::move(before)) {}
    [[nodiscard]] bool reached() const override {
      const std::lock_guard lock(room_->mutex);
      return fill();
    }
    void wait() const override {
      std::unique_lock lock(room_->mutex);
      room_->changed.wait(lock, [&] { return fill(); });
    }

   private:
    bool fill() const {
      if (*aborted_ || (before_ && !before_->fill())) return *aborted_;
      auto& messages = room_->messages[ends_];
      for (; filled_ < into_.size() && !messages.empty(); ++filled_) {
        const at::Tensor message = messages.front(), &into = into_[filled_];
        messages.pop_front();
        // NCCL would hang, or write where it should not.
        if (message.nbytes() != into.nbytes() || message.scalar_type() != into.scalar_type()) std::terminate();
        std::memcpy(into.data_ptr(), message.const_data_ptr(), message.nbytes());
      }
      if (filled_ < into_.size()) return false;
      before_.reset();
      return true;
    }
    std::shared_ptr<Room> room_;
    std::shared_ptr<std::atomic<bool>> aborted_;
    std::pair<int, int> ends_;
    std::vector<at::Tensor> into_;
    mutable std::shared_ptr<const Arrival> before_;
    mutable std::size_t filled_ = 0;
  };

  class Member final : public profiler::GpuCommunicator {
   public:
    Member(std::shared_ptr<Room> room, int member, std::shared_ptr<std::atomic<std::int64_t>> sent)
        : room_(std::move(room)), member_(member), sent_(std::move(sent)) {}
    MomentPtr send(int to, const std::vector<at::Tensor>& tensors) override {
      const std::lock_guard lock(room_->mutex);
      for (const at::Tensor& tensor : tensors) {
        *sent_ += static_cast<std::int64_t>(tensor.nbytes());
        room_->messages[{member_, to}].push_back(tensor.clone());
      }
      room_->changed.notify_all();
      return nullptr;
    }
    [[nodiscard]] profiler::Copied receive(int from, const std::vector<at::Tensor>& likes) override {
      std::vector<at::Tensor> received;
      received.reserve(likes.size());
      for (const at::Tensor& like : likes) received.push_back(at::empty(like.sizes(), like.scalar_type()));
      last_ = std::make_shared<Arrival>(room_, aborted_, std::pair(from, member_), received, last_);
      return {received, last_};
    }
    void all_reduce(const at::Tensor& numbers) override {
      std::unique_lock lock(room_->mutex);
      auto& given = room_->sums[round_++];
      given.push_back(numbers.clone());
      room_->changed.notify_all();
      room_->changed.wait(lock, [&] { return *aborted_ || std::ssize(given) == room_->members; });
      at::Tensor sum = at::zeros_like(numbers);
      for (const at::Tensor& each : given) sum += each;
      at::Tensor(numbers).copy_(sum);
    }
    void abort() noexcept override {
      const std::lock_guard lock(room_->mutex);
      *aborted_ = true;
      room_->changed.notify_all();
    }

   private:
    std::shared_ptr<Room> room_;
    int member_;
    std::shared_ptr<std::atomic<std::int64_t>> sent_;
    std::shared_ptr<std::atomic<bool>> aborted_ = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<const Arrival> last_;
    int round_ = 0;
  };

  std::vector<std::string> alike_;
  mutable std::atomic<int> made_ = 0;
  std::shared_ptr<std::atomic<std::int64_t>> sent_ = std::make_shared<std::atomic<std::int64_t>>(0);
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::map<std::string, std::shared_ptr<Room>> rooms_;
};

}  // namespace mptune::testing
