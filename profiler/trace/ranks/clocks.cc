#include "profiler/trace/ranks/clocks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

constexpr std::size_t kEnoughForDrift = 8;
constexpr double kSpanForDrift_ns = 1e6;
constexpr int kRounds = 20;
constexpr double kMostDrift = 1e-2;  // no clock is worse; a steeper line is made of ends that do not coincide

/// difference = offset + drift * time, in ns.
struct Line {
  double offset = 0;
  double drift = 0;
  [[nodiscard]] double at(double time) const { return offset + drift * time; }
};

struct Point {
  double time = 0;
  double difference = 0;
};

// Fits by least squares; a horizontal line if the times say nothing about drift.
Line line_through(const std::vector<Point>& points, bool with_drift) {
  double time = 0, difference = 0;
  for (const Point& point : points) {
    time += point.time / static_cast<double>(points.size());
    difference += point.difference / static_cast<double>(points.size());
  }
  double squares = 0, products = 0;
  for (const Point& point : points) {
    squares += (point.time - time) * (point.time - time);
    products += (point.time - time) * (point.difference - difference);
  }
  const double drift = with_drift && squares > 0 ? std::clamp(products / squares, -kMostDrift, kMostDrift) : 0;
  return {difference - drift * time, drift};
}

double residual(const Line& line, const Point& point) {
  return point.difference - line.at(point.time);
}

// Returns the half of the points whose residuals lie closest together.
std::vector<Point> closest_half(std::vector<Point> points, const Line& line) {
  std::ranges::sort(points, {}, [&](const Point& point) { return residual(line, point); });
  const std::size_t half = points.size() / 2 + 1;
  std::size_t best = 0;
  double width = INFINITY;
  for (std::size_t i = 0; i + half <= points.size(); ++i) {
    const double here = residual(line, points[i + half - 1]) - residual(line, points[i]);
    if (here < width) best = i;
    width = std::min(width, here);
  }
  const auto from = points.begin() + static_cast<std::ptrdiff_t>(best);
  return {from, from + static_cast<std::ptrdiff_t>(half)};
}

double spread(const std::vector<Point>& points, const Line& line) {
  double sum = 0;
  for (const Point& point : points) sum += residual(line, point) * residual(line, point);
  return sum;
}

// Refits until the same half stays; each round makes the sum of squares of the half smaller.
std::pair<Line, std::vector<Point>> fit_half(const std::vector<Point>& points, Line line, bool with_drift) {
  std::vector<Point> half = closest_half(points, line);
  for (int round = 0; round < kRounds; ++round) {
    line = line_through(half, with_drift);
    std::vector<Point> next = closest_half(points, line);
    if (spread(next, line) >= spread(half, line)) break;
    half = std::move(next);
  }
  return {line_through(half, with_drift), half};
}

// Returns lines to begin with: one without drift, and lines through pairs of points half the time apart. One of these pairs nearly always
// lies on the wanted line, however far the other points are from it.
std::vector<Line> first_lines(const std::vector<Point>& points, bool with_drift) {
  constexpr std::size_t kPairs = 24;
  std::vector<Line> lines{{}};
  const std::size_t apart = points.size() / 2, pairs = with_drift ? std::min(kPairs, apart) : 0;
  for (std::size_t i = 0; i < pairs; ++i) {
    const Point &early = points[i * apart / pairs], &late = points[i * apart / pairs + apart];
    if (late.time <= early.time) continue;
    const double drift = std::clamp((late.difference - early.difference) / (late.time - early.time), -kMostDrift, kMostDrift);
    lines.push_back({early.difference - drift * early.time, drift});
  }
  return lines;
}

Nanoseconds error_of(std::vector<Point> points, const Line& line, const std::vector<Point>& half) {
  double widest = 0;
  for (const Point& point : half) widest = std::max(widest, std::abs(residual(line, point)));
  // Ends that belong to the line lie within some widths of the half's; the others are messages whose sender did not wait.
  std::erase_if(points, [&](const Point& point) { return std::abs(residual(line, point)) > 5 * widest + 1; });
  std::vector<double> distances;
  for (const Point& point : points) distances.push_back(std::abs(residual(line, point)));
  std::ranges::sort(distances);
  return Nanoseconds{static_cast<std::int64_t>(std::ceil(distances[distances.size() * 9 / 10]))};
}

Nanoseconds rounded(double ns) {
  return Nanoseconds{std::llround(ns)};
}

using Pair = std::pair<int, int>;

const Event& event_of(const std::vector<RankRecording>& recordings, const Member& member) {
  const RankRecording& recording = recordings[as_index(member.recording)];
  return recording.trace.events[as_index(recording.communications[as_index(member.communication)].event)];
}

// Returns ends by pair of recordings, the lower one first. Collectives whose processes do not all need each other are left out: each
// process ends when it is done.
std::map<Pair, std::vector<EndPair>> ends_of(const std::vector<RankRecording>& recordings, const Meetings& meetings) {
  std::map<Pair, std::vector<EndPair>> ends;
  for (const Meeting& meeting : meetings.all) {
    if (meeting.kind == Communication::Kind::collective && !meeting.symmetric) continue;
    std::vector<Member> members = meeting.members;
    std::ranges::sort(members, {}, &Member::recording);
    for (std::size_t i = 0; i < members.size(); ++i)
      for (std::size_t j = i + 1; j < members.size(); ++j)
        ends[{members[i].recording, members[j].recording}].push_back(
            {event_of(recordings, members[i]).end(), event_of(recordings, members[j]).end()});
  }
  return ends;
}

void set_by_wall_clock(const std::vector<RankRecording>& recordings, std::size_t recording, AlignedClock& clock) {
  const std::int64_t own = recordings[recording].trace.started_utc_ns, first = recordings.front().trace.started_utc_ns;
  const RankRecording &one = recordings[recording], &reference = recordings.front();
  if (!one.merged_file.empty() && one.merged_file == reference.merged_file && one.origin && reference.origin)
    clock = {.clock = {*one.origin - *reference.origin, 0}, .source = ClockSource::wall_clock};
  if (own <= 0 || first <= 0) return;
  clock = {.clock = {Nanoseconds{own - first}, 0}, .source = ClockSource::wall_clock};
}

}  // namespace

Nanoseconds Clock::common(Nanoseconds own) const {
  return own + offset + rounded(drift * static_cast<double>(own.count()));
}

Clock Clock::then(const Clock& outer) const {
  const double shift = outer.drift * static_cast<double>(offset.count());
  return {offset + outer.offset + rounded(shift), drift + outer.drift + drift * outer.drift};
}

Clock Clock::inverse() const {
  const double back = -drift / (1 + drift);
  return {rounded(-static_cast<double>(offset.count()) * (1 + back)), back};
}

std::optional<ClockFit> fit_clock(const std::vector<EndPair>& ends) {
  if (ends.empty()) return std::nullopt;
  std::vector<Point> points;
  const double origin = static_cast<double>(ends.front().b.count());
  // Differences are small numbers, times since the first pair: doubles hold both exactly.
  for (const EndPair& pair : ends)
    points.push_back({static_cast<double>(pair.b.count()) - origin, static_cast<double>((pair.a - pair.b).count())});
  std::ranges::sort(points, {}, &Point::time);
  const bool with_drift = points.size() >= kEnoughForDrift && points.back().time - points.front().time >= kSpanForDrift_ns;
  std::optional<std::pair<Line, std::vector<Point>>> best;
  for (const Line& first : first_lines(points, with_drift)) {
    auto fit = fit_half(points, first, with_drift);
    if (!best || spread(fit.second, fit.first) < spread(best->second, best->first)) best = std::move(fit);
  }
  const Line& line = best->first;
  const Clock clock{rounded(line.offset - line.drift * origin), line.drift};
  return ClockFit{clock, error_of(points, line, best->second)};
}

std::vector<AlignedClock> align_clocks(const std::vector<RankRecording>& recordings, const Meetings& meetings) {
  const std::map<Pair, std::vector<EndPair>> ends = ends_of(recordings, meetings);
  std::vector<AlignedClock> clocks(recordings.size());
  std::vector<bool> known(recordings.size(), false);
  if (recordings.empty()) return clocks;
  clocks[0].source = ClockSource::reference;
  known[0] = true;
  while (true) {
    const Pair* next = nullptr;
    std::size_t most = 0;
    for (const auto& [pair, shared] : ends) {
      if (known[as_index(pair.first)] == known[as_index(pair.second)] || shared.size() <= most) continue;
      next = &pair;
      most = shared.size();
    }
    if (next == nullptr) break;
    const bool second_is_new = known[as_index(next->first)];
    const int from = second_is_new ? next->first : next->second, to = second_is_new ? next->second : next->first;
    const ClockFit fit = *fit_clock(ends.at(*next));
    const AlignedClock& base = clocks[as_index(from)];
    const Clock clock = (second_is_new ? fit.clock : fit.clock.inverse()).then(base.clock);
    clocks[as_index(to)] = {clock, ClockSource::communications, from, static_cast<std::int64_t>(most), base.error + fit.error};
    known[as_index(to)] = true;
  }
  for (std::size_t i = 1; i < recordings.size(); ++i)
    if (!known[i]) set_by_wall_clock(recordings, i, clocks[i]);
  return clocks;
}

}  // namespace mptune::profiler
