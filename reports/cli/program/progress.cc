#include "reports/cli/program/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace mptune::reports {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLivePeriod = std::chrono::milliseconds(200);
constexpr auto kPlainPeriod = std::chrono::seconds(10);
constexpr double kLeastFraction = 0.05;  // below this share the time left is a guess

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Returns the columns of the terminal that shows the line now: stdout may be another terminal, and a window changes its size.
int error_columns(int otherwise) {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

}  // namespace

ProgressLine::ProgressLine(const Session& session, double budget_s)
    : live_(session.live_progress),
      quiet_(session.options.quiet),
      verbose_(session.options.verbose),
      width_(session.style.width),
      budget_s_(budget_s),
      started_(Clock::now()),
      shown_(started_) {
  if (!quiet_) thread_ = std::thread([this] { loop(); });
}

ProgressLine::~ProgressLine() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (on_line_) std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::update(const std::string& what, double fraction) {
  const std::lock_guard lock(mutex_);
  const bool first = what_.empty();
  const bool changed = what != what_;
  what_ = what;
  if (fraction >= 0) fraction_ = std::max(fraction_, part_begin_ + (part_end_ - part_begin_) * std::min(1.0, fraction));
  if (!quiet_ && (first || (changed && verbose_) || (live_ && Clock::now() - shown_ > kLivePeriod))) show();
}

void ProgressLine::begin_part(double begin, double end) {
  const std::lock_guard lock(mutex_);
  part_begin_ = begin;
  part_end_ = end;
}

void ProgressLine::note(const std::string& note) {
  const std::lock_guard lock(mutex_);
  note_ = note;
}

void ProgressLine::loop() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    wake_.wait_for(lock, live_ ? kLivePeriod : std::chrono::milliseconds(kPlainPeriod), [this] { return done_; });
    if (!done_ && !what_.empty()) show();
  }
}

void ProgressLine::show() {
  shown_ = Clock::now();
  if (live_) {
    // The last column stays free: some terminals break the line there.
    std::fprintf(stderr, "\r%s\x1b[K", line(error_columns(width_) - 1).c_str());
    std::fflush(stderr);
    on_line_ = true;
  } else {
    std::fprintf(stderr, "mptune: %s\n", line(std::numeric_limits<int>::max()).c_str());
  }
}

std::string ProgressLine::line(int columns) const {
  const double elapsed = seconds_since(started_);
  const double fraction = budget_s_ > 0 ? std::min(1.0, elapsed / budget_s_) : fraction_;
  std::string numbers;
  if (fraction >= 0) numbers += fmt::format(", {:.0f} %", std::min(1.0, fraction) * 100);
  if (elapsed >= 1) numbers += fmt::format(", {:.0f} s", elapsed);
  if (fraction > kLeastFraction && fraction < 1 && elapsed >= 1)
    numbers += fmt::format(", {:.0f} s left", elapsed / fraction * (1 - fraction));
  if (!note_.empty()) numbers += ", " + note_;
  const int room = std::max(0, columns - display_width(numbers));
  return clip_text(clip_text(what_, room) + numbers, columns);
}

}  // namespace mptune::reports
