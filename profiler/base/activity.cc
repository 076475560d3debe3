#include "profiler/base/activity.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

constexpr std::size_t kThreads = 256;
constexpr std::size_t kText = 160;
constexpr std::size_t kMostKnown = 4096;  // activities whose durations a thread remembers
constexpr auto kBeat = std::chrono::milliseconds(500);

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds(std::int64_t nanoseconds) {
  return 1e-9 * static_cast<double>(nanoseconds);
}

}  // namespace

struct ActivityState {
  std::array<char, kText> text;  ///< ends with 0; "": nothing
  std::int64_t since_ns;
  std::int64_t longest_ns;
  double patience_s;
};

/// What one thread does. The version is odd while the thread writes.
struct ActivitySlot {
  std::atomic<std::uint32_t> taken;
  std::atomic<std::uint32_t> version;
  ActivityState doing;
};

/// New memory is all zeros, which is an empty board.
struct ActivityMemory {
  std::atomic<std::int64_t> beat_ns;
  std::atomic<std::uint32_t> ended_in;          ///< index of a slot + 1
  std::atomic<std::uint32_t> ended_by_another;  ///< 1: another process sent the signal
  std::array<ActivitySlot, kThreads> slots;
};

namespace {

static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

/// The board that this process writes to; null: nobody watches.
ActivityMemory* published = nullptr;

void write(ActivitySlot& slot, const ActivityState& doing) {
  slot.version.fetch_add(1, std::memory_order_acq_rel);
  slot.doing = doing;
  slot.version.fetch_add(1, std::memory_order_release);
}

/// The calling thread's place on the board, for as long as the thread lives.
class Place {
 public:
  Place() {
    for (ActivitySlot& slot : published->slots) {
      std::uint32_t is_free = 0;
      if (!slot.taken.compare_exchange_strong(is_free, 1)) continue;
      slot_ = &slot;
      break;
    }
  }
  ~Place() {
    // Within an activity, it is exit() that ends the thread: what it did stays to be read.
    if (slot_ == nullptr || slot_->doing.text.front() != '\0') return;
    write(*slot_, {.text = {}, .since_ns = now_ns(), .longest_ns = 0, .patience_s = 0});
    slot_->taken = 0;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  /// Returns null if more threads do something than there are places.
  [[nodiscard]] ActivitySlot* slot() const { return slot_; }

  [[nodiscard]] std::int64_t longest(const ActivityState& doing) const {
    const auto known = longest_.find(key(doing));
    return known == longest_.end() ? 0 : known->second;
  }
  void took(const ActivityState& doing, std::int64_t ns) {
    if (longest_.size() >= kMostKnown) longest_.clear();
    std::int64_t& longest = longest_[key(doing)];
    longest = std::max(longest, ns);
  }

 private:
  static std::size_t key(const ActivityState& doing) { return std::hash<std::string_view>()(doing.text.data()); }

  ActivitySlot* slot_ = nullptr;
  std::unordered_map<std::size_t, std::int64_t> longest_;
};

// Read by signal handlers, which must not construct a Place.
thread_local ActivitySlot* slot_of_thread = nullptr;

Place& place() {
  thread_local Place place;
  slot_of_thread = place.slot();
  return place;
}

ActivityState begun(std::string_view what, std::string_view name, double patience_s) {
  ActivityState doing{.text = {}, .since_ns = now_ns(), .longest_ns = 0, .patience_s = patience_s};
  std::size_t size = 0;
  const auto append = [&](std::string_view part) {
    const std::size_t count = std::min(part.size(), kText - 1 - size);
    std::memcpy(doing.text.data() + size, part.data(), count);
    size += count;
  };
  append(what);
  if (!name.empty())
    for (const std::string_view part : {std::string_view(" '"), name, std::string_view("'")}) append(part);
  return doing;
}

void note_end() {
  if (slot_of_thread != nullptr) published->ended_in = static_cast<std::uint32_t>(slot_of_thread - published->slots.data()) + 1;
}

std::mutex left_mutex;
std::string left_by_exception;
thread_local int notes_of_thread = 0;

void note_exception(const ActivityState& doing) {
  ++notes_of_thread;
  const std::lock_guard lock(left_mutex);
  left_by_exception = doing.text.data();
}

bool sent_by_another(const siginfo_t& about) {
  return about.si_code <= 0 && about.si_pid != ::getpid();  // greater codes are the kernel's: this process made a mistake
}

void note_fatal_signal(int signal, siginfo_t* about, void* /*unused*/) {
  if (sent_by_another(*about))
    published->ended_by_another = 1;
  else
    note_end();
  ::raise(signal);  // the handler is reset: this ends the process
}

void note_exit(int status, void* /*unused*/) {
  note_end();
  // Other threads still compute; tearing the libraries down under them would hang or crash.
  ::_exit(status);
}

void note_ends() {
  struct sigaction action {};
  action.sa_sigaction = note_fatal_signal;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) ::sigaction(signal, &action, nullptr);
  ::on_exit(note_exit, nullptr);
}

}  // namespace

struct Activity::Before {
  ActivityState doing;
  int exceptions;  ///< in flight when the activity began
  int notes;       ///< made by this thread when it began
};

Activity::Activity(std::string_view what, std::string_view name, double patience_s) {
  if (published == nullptr) return;
  Place& own = place();
  if (own.slot() == nullptr) return;
  before_ = std::make_unique<Before>(Before{own.slot()->doing, std::uncaught_exceptions(), notes_of_thread});
  ActivityState doing = begun(what, name, patience_s);
  doing.longest_ns = own.longest(doing);
  write(*own.slot(), doing);
}

Activity::~Activity() {
  if (!before_) return;
  Place& own = place();
  const std::int64_t now = now_ns();
  if (std::uncaught_exceptions() > before_->exceptions && notes_of_thread == before_->notes) note_exception(own.slot()->doing);
  own.took(own.slot()->doing, now - own.slot()->doing.since_ns);
  before_->doing.since_ns = now;
  write(*own.slot(), before_->doing);
}

std::string activity_left_by_exception() {
  const std::lock_guard lock(left_mutex);
  return left_by_exception;
}

void publish_activities(int descriptor) {
  void* memory = ::mmap(nullptr, sizeof(ActivityMemory), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return;
  published = static_cast<ActivityMemory*>(memory);
  published->beat_ns = now_ns();
  note_ends();
  std::thread([] {
    while (true) {
      std::this_thread::sleep_for(kBeat);
      published->beat_ns = now_ns();
    }
  }).detach();
}

namespace {

/// Returns the newest state of a slot that is not half written; a thread that died while it wrote leaves the old one.
ActivityState read(ActivitySlot& slot) {
  ActivityState doing;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::uint32_t version = slot.version.load(std::memory_order_acquire);
    doing = slot.doing;
    // The addition of 0 keeps the copy before the second look at the version, for which a load would need a fence (Boehm 2012, "Can
    // seqlocks get along with programming language memory models?"); the thread sanitizer knows no fences.
    if (version % 2 == 0 && slot.version.fetch_add(0, std::memory_order_acq_rel) == version) break;
  }
  doing.text.back() = '\0';
  return doing;
}

}  // namespace

// A limit on the size of files (ulimit -f) may forbid shared memory; then the board stays empty.
ActivityBoard::ActivityBoard() : descriptor_(::memfd_create("mptune-activities", MFD_CLOEXEC)) {
  if (descriptor_ >= 0 && ::ftruncate(descriptor_, sizeof(ActivityMemory)) != 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
  const int kind = descriptor_ >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory = ::mmap(nullptr, sizeof(ActivityMemory), PROT_READ | PROT_WRITE, kind, descriptor_, 0);
  if (memory == MAP_FAILED) {
    const std::string reason = std::strerror(errno);
    if (descriptor_ >= 0) ::close(descriptor_);
    throw Error("no memory to share with mptune-worker (" + reason + ")", "mptune", "free memory, or raise the limits (ulimit -a)",
                ExitCode::environment);
  }
  memory_ = static_cast<ActivityMemory*>(memory);
}

ActivityBoard::~ActivityBoard() {
  ::munmap(memory_, sizeof(ActivityMemory));
  if (descriptor_ >= 0) ::close(descriptor_);
}

int ActivityBoard::descriptor() const {
  return descriptor_;
}

double ActivityBoard::beat_s() const {
  return seconds(memory_->beat_ns);
}

double ActivityBoard::last_change_s() const {
  std::int64_t last = 0;
  for (ActivitySlot& slot : memory_->slots)
    if (slot.version != 0) last = std::max(last, read(slot).since_ns);
  return seconds(last);
}

std::vector<ThreadActivity> ActivityBoard::activities() const {
  std::vector<ThreadActivity> all;
  for (ActivitySlot& slot : memory_->slots) {
    if (slot.taken == 0) continue;
    const ActivityState doing = read(slot);
    if (doing.text.front() != '\0')
      all.push_back({doing.text.data(), seconds(doing.since_ns), seconds(doing.longest_ns), doing.patience_s});
  }
  return all;
}

std::string ActivityBoard::ended_in() const {
  const std::uint32_t number = memory_->ended_in;
  return number == 0 || number > kThreads ? "" : read(memory_->slots[number - 1]).text.data();
}

bool ActivityBoard::ended_by_another() const {
  return memory_->ended_by_another != 0;
}

}  // namespace mptune
