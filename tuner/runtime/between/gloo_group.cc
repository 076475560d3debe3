#include <ATen/ATen.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/library_message.h"
#include "profiler/base/text.h"
#include "tuner/runtime/between/c10d_store.h"
#include "tuner/runtime/between/rank_group.h"
#include "tuner/runtime/between/rank_heartbeats.h"

namespace mptune {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

constexpr const char* kWhy = "mptune/why";
constexpr int kNoTag = std::numeric_limits<int>::max();  // of no message
constexpr std::chrono::milliseconds kNextLook{10}, kNextLookAtSum{1000};
constexpr std::chrono::milliseconds kWhileOthersAsk{500};

/// Keeps messages to one rank until they are sent: Gloo's work does not say when that is, but lets a thread wait for it. Gloo sends a
/// message once its receiver is ready, so that one message must not wait for another to be sent.
class Outbox {
 public:
  Outbox() : thread_([this] { loop(); }) {}
  ~Outbox() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void keep(at::Tensor bytes, WorkPtr work) {
    {
      const std::lock_guard lock(mutex_);
      kept_.emplace_back(std::move(bytes), std::move(work));
    }
    changed_.notify_all();
  }
  /// No longer waits for what is not sent yet. False while it still does: a wait that has not begun yet is not ended by abort().
  [[nodiscard]] bool give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    for (const auto& [bytes, work] : kept_) work->abort();
    return kept_.empty();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !kept_.empty(); });
      if (kept_.empty()) return;
      const WorkPtr work = kept_.front().second;
      if (!given_up_) {
        lock.unlock();
        try {
          work->wait();
        } catch (const std::exception&) {
          // The receive that waits for that rank says why.
        }
        lock.lock();
      }
      kept_.pop_front();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<at::Tensor, WorkPtr>> kept_;
  bool stop_ = false, given_up_ = false;
  std::thread thread_;
};

bool is_here(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

std::shared_ptr<::gloo::transport::Device> network_for(const std::string& address) {
  if (const char* name = std::getenv("GLOO_SOCKET_IFNAME"); name != nullptr && *name != 0)
    return c10d::ProcessGroupGloo::createDeviceForInterface(name);
  if (is_here(address)) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

/// Without the place in Gloo's source, which it begins with in brackets.
std::string without_source(const std::string& text) {
  const auto end = text.find("] ");
  return text.starts_with('[') && end != std::string::npos ? text.substr(end + 2) : text;
}

std::string name_of(int rank) {
  return "rank " + std::to_string(rank);
}

/// An error in lines: code, what, where with the rank, remedy.
std::string lines_of(const Error& error, int rank) {
  const std::string own = name_of(rank), where = error.where() == own ? own : own + ", " + error.where();
  return std::to_string(static_cast<int>(error.code())) + "\n" + error.problem() + "\n" + where + "\n" + error.remedy();
}

std::optional<Error> error_in(const std::string& lines) {
  const std::vector<std::string> parts = split(lines, '\n');
  const auto code = parts.size() == 4 ? integer(parts[0]) : std::nullopt;
  if (!code) return std::nullopt;
  return Error(parts[1], parts[2], parts[3], static_cast<ExitCode>(*code));
}

class GlooGroup final : public RankGroup {
 public:
  GlooGroup(const RankPlace& place, c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Store> store_of_beats,
            std::shared_ptr<::gloo::transport::Device> network, double patience_s)
      : rank_(place.rank),
        size_(place.ranks),
        patience_s_(patience_s),
        has_store_(place.rank == 0 && !place.store_runs),
        store_(std::move(store)),
        network_(std::move(network)) {
    gloo_ = connected(store_, rank_, size_);
    for (int other = 0; other < size_; ++other) outboxes_.push_back(other == rank_ ? nullptr : std::make_unique<Outbox>());
    beats_ = std::make_unique<tuner::RankHeartbeats>(std::move(store_of_beats), rank_, [this](int other) { end_for_silent(other); });
  }
  ~GlooGroup() override {
    beats_.reset();
    outboxes_.clear();
    // The others ask the store here why this rank has given up.
    if (given_up_ && has_store_) std::this_thread::sleep_for(kWhileOthersAsk);
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  void send(int to, int tag, at::Tensor bytes) override {
    std::vector<at::Tensor> message{std::move(bytes)};
    try {
      WorkPtr work = gloo()->send(message, to, tag);
      outboxes_.at(as_index(to))->keep(std::move(message[0]), std::move(work));
    } catch (const std::exception&) {
      // The receive that waits for that rank says why.
    }
  }

  void receive(int from, int tag, const at::Tensor& bytes) override { receive_all(from, tag, {bytes}); }

  // Gloo sends a message once its receiver is ready, so all are asked for before the first is waited for.
  void receive_all(int from, int tag, const std::vector<at::Tensor>& messages) override {
    const auto began = std::chrono::steady_clock::now();
    std::vector<WorkPtr> works;
    bool received = true;
    std::optional<std::string> problem;
    const tuner::RankHeartbeats::Wait wait(*beats_, {from});
    try {
      for (const at::Tensor& bytes : messages) {
        std::vector<at::Tensor> message{bytes};
        works.push_back(waited_for(gloo()->recv(message, from, tag)));  // throws, too, where the connection has ended
      }
      for (const WorkPtr& work : works) received = received && work->wait();
    } catch (const RanksGivenUp&) {
      received = false;
    } catch (const std::exception& error) {
      problem = library_message(error.what());
    }
    for (const WorkPtr& work : works) no_longer_waited_for(work);
    if (problem) lost({from}, began, *problem);
    if (!received) throw_ended();
  }

  // It ends with the connections: each rank that gives up closes its own, of sums in which it takes no part at the moment.
  void all_reduce(const std::vector<int>& ranks, int sum, const at::Tensor& numbers) override {
    std::vector<at::Tensor> summed{numbers};
    std::vector<int> others = ranks;
    std::erase(others, rank_);
    const auto began = std::chrono::steady_clock::now();
    const tuner::RankHeartbeats::Wait wait(*beats_, others);
    std::string problem;
    try {
      const GlooPtr group = group_of(ranks, sum);
      const WorkPtr work = group->allreduce(summed);
      while (!ends_within(work, kNextLookAtSum)) leave_if_ended(group);
      return;
    } catch (const RanksGivenUp&) {
      throw;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      problem = library_message(error.what());
    }
    lost(others, began, problem);
  }

  void give_up(const Error& why) override {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(given_up_, true)) return;
    }
    try {
      store_->compareSet(kWhy, std::vector<std::uint8_t>{}, bytes_of(lines_of(why, rank_)));
    } catch (const std::exception&) {
      // The rank that holds the store has ended: the others miss that one.
    }
    while (!receives_ended() || !sends_ended()) std::this_thread::sleep_for(kNextLook);
    gloo_.reset();  // so that the others notice at once
    forget_sums();
  }

 private:
  using GlooPtr = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

  [[nodiscard]] GlooPtr connected(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) const {
    const auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::milliseconds(static_cast<std::int64_t>(1000 * patience_s_)));
    options->devices.push_back(network_);
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  }

  GlooPtr group_of(const std::vector<int>& ranks, int sum) {
    {
      const std::lock_guard lock(mutex_);
      throw_if_ended();
      if (const auto known = sums_.find(sum); known != sums_.end()) return known->second;
    }
    const auto place = std::ranges::find(ranks, rank_) - ranks.begin();
    const auto store = c10::make_intrusive<c10d::PrefixStore>("sum/" + std::to_string(sum), store_);
    GlooPtr group = connected(store, static_cast<int>(place), static_cast<int>(ranks.size()));
    const std::lock_guard lock(mutex_);
    throw_if_ended();
    return sums_[sum] = group;
  }
  void forget_sums() {
    std::map<int, GlooPtr> sums;  // closed without the lock
    const std::lock_guard lock(mutex_);
    sums.swap(sums_);
  }

  GlooPtr gloo() {
    const std::lock_guard lock(mutex_);
    throw_if_ended();
    return gloo_;
  }

  /// With the lock.
  void throw_if_ended() const {
    if (given_up_) throw RanksGivenUp();
    if (silent_) throw silent_error();
  }
  [[noreturn]] void throw_ended() {
    const std::lock_guard lock(mutex_);
    throw_if_ended();
    throw RanksGivenUp();
  }
  [[nodiscard]] Error silent_error() const {
    return {name_of(*silent_) + " has given no sign of life for " + std::to_string(tuner::RankHeartbeats::kSilentSeconds) + " s",
            name_of(rank_),
            "see whether it is stopped, or its machine or network is down; run with --checkpoint and tune --resume go on where they ended",
            ExitCode::environment};
  }
  /// From now on all that waits ends with silent_error().
  void end_for_silent(int other) {
    const std::lock_guard lock(mutex_);
    if (!silent_) silent_ = other;
    for (const WorkPtr& work : waiting_) work->abort();
  }

  static bool ends_within(const WorkPtr& work, std::chrono::milliseconds time) {
    try {
      return work->wait(time);
    } catch (const std::exception&) {
      if (work->isCompleted()) throw;
      return false;
    }
  }
  void leave_if_ended(const GlooPtr& group) {
    const std::lock_guard lock(mutex_);
    // The end of the group would wait for the sum, which waits for the silent rank: it is left to the end of the process.
    if (silent_ && !given_up_) static_cast<void>(new GlooPtr(group));
    throw_if_ended();
  }
  static std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

  /// A wait that has not begun yet is not ended by abort().
  bool receives_ended() {
    const std::lock_guard lock(mutex_);
    for (const WorkPtr& work : waiting_) work->abort();
    return waiting_.empty();
  }
  bool sends_ended() {
    bool ended = true;
    for (const auto& outbox : outboxes_) ended = (!outbox || outbox->give_up()) && ended;
    return ended;
  }

  WorkPtr waited_for(WorkPtr work) {
    const std::lock_guard lock(mutex_);
    throw_if_ended();
    waiting_.insert(work);
    return work;
  }
  void no_longer_waited_for(const WorkPtr& work) {
    const std::lock_guard lock(mutex_);
    waiting_.erase(work);
  }

  /// What a rank said when it gave up; nothing where none did within a second.
  [[nodiscard]] std::optional<Error> why_others_gave_up() {
    try {
      store_->wait({kWhy}, std::chrono::seconds(1));
      const std::vector<std::uint8_t> text = store_->get(kWhy);
      return error_in({text.begin(), text.end()});
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  /// Returns the names of those of `ranks` whose connections have ended; of all of them where none has.
  std::string missing_of(const std::vector<int>& ranks) {
    std::vector<std::string> all, ended;
    for (const int rank : ranks) {
      all.push_back(name_of(rank));
      std::vector<at::Tensor> never_sent{at::empty({1}, at::kByte)};
      try {
        if (ranks.size() > 1) (void)gloo()->recv(never_sent, rank, kNoTag);
      } catch (const std::exception&) {
        ended.push_back(name_of(rank));
      }
    }
    return join(ended.empty() ? all : ended, " or ");
  }

  /// `others`: those of whom at least one is missed.
  [[noreturn]] void lost(const std::vector<int>& others, std::chrono::steady_clock::time_point began, const std::string& problem) {
    const double waited_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    {
      const std::lock_guard lock(mutex_);
      throw_if_ended();
    }
    if (const auto why = why_others_gave_up()) throw *why;
    const std::string missing = missing_of(others);
    if (waited_s >= patience_s_)
      throw Error(missing + " has said nothing for " + std::to_string(static_cast<int>(patience_s_)) + " s", name_of(rank_),
                  "see whether it is stopped, or its network is down", ExitCode::environment);
    throw Error(missing + " has ended or cannot be reached (" + without_source(problem) + ")", name_of(rank_),
                "see what that rank said; run with --checkpoint and tune --resume go on where they ended", ExitCode::environment);
  }

  const int rank_, size_;
  const double patience_s_;
  const bool has_store_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<::gloo::transport::Device> network_;
  GlooPtr gloo_;
  std::mutex mutex_;
  std::map<int, GlooPtr> sums_;  ///< by number of the sum
  std::set<WorkPtr> waiting_;    ///< receives
  bool given_up_ = false;
  std::optional<int> silent_;                      ///< a rank that gives no sign of life
  std::vector<std::unique_ptr<Outbox>> outboxes_;  ///< per rank; null for this one
  std::unique_ptr<tuner::RankHeartbeats> beats_;
};

}  // namespace

Error error_for_ranks(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return {library_message(error.what()), "step", "see what that rank says", ExitCode::environment};
  } catch (...) {
    return {"an unknown error", "step", "see what that rank says", ExitCode::environment};
  }
}

std::shared_ptr<RankGroup> join_ranks(const RankPlace& place, const RankOptions& options) {
  const auto patience = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * options.patience_s));
  try {
    const auto role = place.rank == 0 && !place.store_runs ? tuner::StoreRole::server : tuner::StoreRole::client;
    const auto opened = [&](tuner::StoreRole as) {
      return c10::make_intrusive<c10d::PrefixStore>("group " + options.name, tuner::open_c10d_store(place, as, patience));
    };
    const auto own = opened(role), of_beats = opened(tuner::StoreRole::client);
    return std::make_shared<GlooGroup>(place, own, of_beats, network_for(place.address), options.patience_s);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error("the ranks did not meet: " + library_message(error.what()),
                name_of(place.rank) + " of " + std::to_string(place.ranks) + ", " + place.address + ":" + std::to_string(place.port),
                "see that all ranks were started, and that this address can be reached; GLOO_SOCKET_IFNAME names the network interface",
                ExitCode::environment);
  }
}

}  // namespace mptune
