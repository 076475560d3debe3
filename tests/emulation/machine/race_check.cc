#include "tests/emulation/machine/race_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace emulation {

namespace {

/// What was done last with some bytes.
struct Shadow {
  std::uintptr_t end = 0;
  std::optional<User> written;
  std::vector<User> read;  ///< since it was written; one per stream
};

struct Races {
  std::mutex mutex;
  std::map<std::uintptr_t, Shadow> shadows;  ///< by their begin; they do not overlap
  std::set<std::pair<std::string, std::string>> reported;
  std::atomic<std::size_t> count = 0;
};

Races& races() {
  static Races& all = *new Races;
  return all;
}

bool is_on() {
  static const bool on = setting("RACES", 1) != 0;
  return on;
}

std::string place_of(const User& user) {
  if (user.on == nullptr) return std::string(user.name) + " (host)";
  const StreamFacts facts = facts_of(*user.on);
  return std::string(user.name) + " (stream " + std::to_string(facts.id) + " of GPU " + std::to_string(facts.gpu) + ")";
}

/// EMULATED_RACE_FILE: the reports of all processes, as a program's errors may go anywhere.
void append_to_file(const std::string& line) {
  const std::string path = setting_text("RACE_FILE", "");
  if (path.empty()) return;
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0 || write(file, line.data(), line.size()) < 0) std::perror("EMULATED_RACE_FILE");
  if (file >= 0) close(file);
}

/// Requires: the mutex is held.
void report(const User& earlier, bool wrote, const User& later, const Range& use) {
  ++races().count;
  if (!races().reported.emplace(earlier.name, later.name).second) return;
  char bytes[64];
  std::snprintf(bytes, sizeof bytes, "%zu bytes at %p", use.bytes, use.begin);
  const std::string line = "race: " + place_of(later) + (use.written ? " writes " : " reads ") + bytes + " that " + place_of(earlier) +
                           (wrote ? " wrote" : " read") + ", and no wait is between them\n";
  std::fputs(line.c_str(), stderr);
  append_to_file(line);
}

/// Splits a shadow at `at`, so that one begins there if one holds it.
void split(std::uintptr_t at) {
  auto& shadows = races().shadows;
  auto next = shadows.upper_bound(at);
  if (next == shadows.begin()) return;
  const auto holding = std::prev(next);
  if (holding->first == at || holding->second.end <= at) return;
  Shadow rest = holding->second;
  holding->second.end = at;
  shadows.emplace_hint(next, at, std::move(rest));
}

bool is_before(const User& earlier, const VectorClock& before) {
  return before.at(earlier.stream) >= earlier.task;
}

void check(const Shadow& shadow, const User& user, const VectorClock& before, const Range& use) {
  if (shadow.written && !is_before(*shadow.written, before)) report(*shadow.written, true, user, use);
  if (!use.written) return;
  for (const User& reader : shadow.read)
    if (!is_before(reader, before)) report(reader, false, user, use);
}

void add_reader(Shadow& shadow, const User& user) {
  const auto same = std::find_if(shadow.read.begin(), shadow.read.end(), [&](const User& reader) { return reader.stream == user.stream; });
  if (same == shadow.read.end())
    shadow.read.push_back(user);
  else
    *same = user;
}

struct Bounds {
  std::uintptr_t begin, end;
};

Bounds bounds_of(const void* begin, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  return {first, first + bytes};
}

void write(const Bounds& bounds, const User& user) {
  auto& shadows = races().shadows;
  shadows.erase(shadows.lower_bound(bounds.begin), shadows.lower_bound(bounds.end));
  shadows[bounds.begin] = {bounds.end, user, {}};
}

/// Adds the reader to all shadows of the bounds, and shadows where there are none.
void read(const Bounds& bounds, const User& user) {
  auto& shadows = races().shadows;
  std::uintptr_t at = bounds.begin;
  for (auto shadow = shadows.lower_bound(at); at < bounds.end; ++shadow) {
    const std::uintptr_t next = shadow == shadows.end() ? bounds.end : std::min(shadow->first, bounds.end);
    if (at < next) shadow = shadows.emplace_hint(shadow, at, Shadow{next, std::nullopt, {}});
    add_reader(shadow->second, user);
    at = shadow->second.end;
  }
}

template <typename Do>
void for_shadows(const Bounds& bounds, Do work) {
  auto& shadows = races().shadows;
  const auto end = shadows.lower_bound(bounds.end);
  for (auto shadow = shadows.lower_bound(bounds.begin); shadow != end; ++shadow) work(shadow->second);
}

}  // namespace

void VectorClock::set(std::size_t stream, std::uint64_t task) {
  if (stream >= passed_.size()) passed_.resize(stream + 1);
  passed_[stream] = std::max(passed_[stream], task);
}

void VectorClock::join(const VectorClock& other) {
  if (passed_.size() < other.passed_.size()) passed_.resize(other.passed_.size());
  for (std::size_t i = 0; i < other.passed_.size(); ++i) passed_[i] = std::max(passed_[i], other.passed_[i]);
}

void check_uses(const User& user, const VectorClock& before, const std::vector<Range>& uses) {
  if (!is_on()) return;
  const std::lock_guard lock(races().mutex);
  for (const Range& use : uses) {
    if (use.bytes == 0) continue;
    const Bounds bounds = bounds_of(use.begin, use.bytes);
    split(bounds.begin);
    split(bounds.end);
    for_shadows(bounds, [&](const Shadow& shadow) { check(shadow, user, before, use); });
    use.written ? write(bounds, user) : read(bounds, user);
  }
}

void check_host_uses(const char* name, const VectorClock& before, const std::vector<Range>& uses) {
  if (!is_on()) return;
  const std::lock_guard lock(races().mutex);
  for (const Range& use : uses) {
    if (use.bytes == 0) continue;
    const Bounds bounds = bounds_of(use.begin, use.bytes);
    split(bounds.begin);
    split(bounds.end);
    for_shadows(bounds, [&](const Shadow& shadow) { check(shadow, {0, 0, name, nullptr}, before, use); });
  }
}

void forget_uses(const void* begin, std::size_t bytes) {
  if (!is_on() || bytes == 0) return;
  const Bounds bounds = bounds_of(begin, bytes);
  const std::lock_guard lock(races().mutex);
  split(bounds.begin);
  split(bounds.end);
  auto& shadows = races().shadows;
  shadows.erase(shadows.lower_bound(bounds.begin), shadows.lower_bound(bounds.end));
}

std::size_t race_count() {
  return races().count;
}

}  // namespace emulation
