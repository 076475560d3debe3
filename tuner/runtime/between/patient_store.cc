#include "tuner/runtime/between/patient_store.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace mptune::tuner {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLatestAnswer{10'000};

constexpr milliseconds kFirstLook{1}, kLaterLooks{20};
constexpr milliseconds kOpening = kLatestAnswer / 2;  // for a store that is not there yet

}  // namespace

StoreSilent::StoreSilent(const std::string& address)
    : Error("rank 0 is stopped or cannot be reached: the store where the ranks meet does not answer", address,
            "see whether rank 0 and the processes it started are stopped, or its machine or network is down", ExitCode::environment) {}

struct BackgroundThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  int late = 0;  ///< pieces of work that nobody waits for any more, and that have not ended
  bool stop = false;

  void loop() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stop || !waiting.empty(); });
      if (stop) return;
      std::function<void()> work = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }
};

// The thread is its own: it may have to outlive this object.
BackgroundThread::BackgroundThread() : shared_(std::make_shared<Shared>()) {
  std::thread([shared = shared_] { shared->loop(); }).detach();
}

BackgroundThread::~BackgroundThread() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
}

bool BackgroundThread::done_within(milliseconds limit, std::function<void()> work) {
  struct Piece {
    std::function<void()> work;
    std::exception_ptr failed = nullptr;
    bool done = false;
    bool abandoned = false;
  };
  const auto piece = std::make_shared<Piece>(Piece{std::move(work)});
  std::unique_lock lock(shared_->mutex);
  if (shared_->late > 0) return false;
  shared_->waiting.emplace_back([piece, shared = shared_.get()] {
    std::exception_ptr failed;
    try {
      piece->work();
    } catch (...) {
      failed = std::current_exception();
    }
    piece->work = nullptr;
    const std::lock_guard own_lock(shared->mutex);
    piece->failed = std::move(failed);
    piece->done = true;
    if (piece->abandoned) --shared->late;
    shared->changed.notify_all();
  });
  shared_->changed.notify_all();
  if (!shared_->changed.wait_for(lock, limit, [&] { return piece->done; })) {
    piece->abandoned = true;
    ++shared_->late;
    return false;
  }
  if (piece->failed) std::rethrow_exception(piece->failed);
  return true;
}

PatientStore::PatientStore(const Opener& open, milliseconds patience, Expected expected, std::string address)
    : Store(patience), address_(std::move(address)) {
  const auto ends = std::chrono::steady_clock::now() + patience;
  while (!inner_) {
    const auto left = std::chrono::duration_cast<milliseconds>(ends - std::chrono::steady_clock::now());
    const milliseconds slice = std::clamp(left, milliseconds{1}, kOpening);
    const auto opened = std::make_shared<Inner>();
    try {
      if (!thread_.done_within(slice + kOpening, [opened, open, slice] { *opened = open(slice); })) throw StoreSilent(address_);
      inner_ = *opened;
    } catch (const StoreSilent&) {
      throw;
    } catch (const std::exception&) {
      if (left <= kOpening || expected == Expected::now) throw;
    }
  }
}

template <typename Answer>
Answer PatientStore::asked(std::function<Answer(c10d::Store&)> ask) {
  const auto answer = std::make_shared<Answer>();
  const auto work = [answer, ask = std::move(ask), inner = inner_] { *answer = ask(*inner); };
  if (!thread_.done_within(kLatestAnswer, work)) throw StoreSilent(address_);
  return std::move(*answer);
}

c10::intrusive_ptr<c10d::Store> PatientStore::clone() {
  return c10::make_intrusive<PatientStore>([inner = inner_](milliseconds) { return inner->clone(); }, timeout_, Expected::now, address_);
}

void PatientStore::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  (void)asked<bool>([=](c10d::Store& inner) {
    inner.set(key, value);
    return true;
  });
}

std::vector<std::uint8_t> PatientStore::compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                                   const std::vector<std::uint8_t>& desired) {
  return asked<std::vector<std::uint8_t>>([=](c10d::Store& inner) { return inner.compareSet(key, expected, desired); });
}

std::vector<std::uint8_t> PatientStore::get(const std::string& key) {
  wait({key}, timeout_);
  return asked<std::vector<std::uint8_t>>([=](c10d::Store& inner) { return inner.get(key); });
}

std::int64_t PatientStore::add(const std::string& key, std::int64_t value) {
  return asked<std::int64_t>([=](c10d::Store& inner) { return inner.add(key, value); });
}

bool PatientStore::deleteKey(const std::string& key) {
  return asked<bool>([=](c10d::Store& inner) { return inner.deleteKey(key); });
}

bool PatientStore::check(const std::vector<std::string>& keys) {
  return asked<bool>([=](c10d::Store& inner) { return inner.check(keys); });
}

std::int64_t PatientStore::getNumKeys() {
  return asked<std::int64_t>([](c10d::Store& inner) { return inner.getNumKeys(); });
}

void PatientStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void PatientStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  const auto limit = std::chrono::steady_clock::now() + timeout;
  for (milliseconds next = kFirstLook; !check(keys); next = std::min(2 * next, kLaterLooks)) {
    if (std::chrono::steady_clock::now() >= limit) {
      std::string missing;
      for (const std::string& key : keys) missing += (missing.empty() ? "" : ", ") + key;
      throw std::runtime_error("another rank has not come: nobody has written " + missing);
    }
    std::this_thread::sleep_for(next);
  }
}

}  // namespace mptune::tuner
