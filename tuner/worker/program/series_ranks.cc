#include "tuner/worker/program/series_ranks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <vector>

#include "profiler/base/error.h"
#include "tuner/runtime/between/tensor_text.h"
#include "tuner/worker/messages.h"

namespace mptune::tuner {
namespace {

enum Stream : int { orders, ends };
constexpr const char* kError = "error";

/// "" where it went well.
std::string text_of(const SeriesRanks::End& end) {
  if (std::holds_alternative<std::exception_ptr>(end)) return kError;
  const auto* outcome = std::get_if<Outcome>(&end);
  return outcome == nullptr ? "" : encode(EntryFinished{0, *outcome});
}

}  // namespace

SeriesRanks::SeriesRanks(const std::shared_ptr<RankGroup>& ranks, int entries) : entries_(entries) {
  if (ranks) streams_.emplace(ranks);
}

void SeriesRanks::tell(SeriesWork work, int entry) {
  if (!streams_ || !lead()) return;
  for (int other = 1; other < streams_->group().size(); ++other)
    streams_->send_numbers(other, Stream::orders, 0, {static_cast<std::int64_t>(work), entry});
}

std::pair<SeriesWork, int> SeriesRanks::told() {
  const std::vector<std::int64_t> order = streams_->receive_numbers(0, Stream::orders, 0, 2);
  if (order[0] < 0 || order[0] > static_cast<std::int64_t>(SeriesWork::end) || order[1] < 0 || order[1] >= std::max(1, entries_))
    refuse_message();
  return {static_cast<SeriesWork>(order[0]), static_cast<int>(order[1])};
}

SeriesRanks::End SeriesRanks::agree(End own) {
  if (!streams_) return own;
  const std::vector<std::string> all = streams_->exchange_texts(Stream::ends, text_of(own));
  const auto failed = std::ranges::find_if(all, [](const std::string& text) { return !text.empty() && text != kError; });
  if (failed != all.end()) {
    const Reply reply = decode_reply(*failed);
    if (!std::holds_alternative<EntryFinished>(reply)) refuse_message();
    return std::get<EntryFinished>(reply).outcome;
  }
  const auto error = std::ranges::find(all, kError);
  if (error == all.end() || std::holds_alternative<std::exception_ptr>(own)) return own;
  return std::make_exception_ptr(
      Error("rank " + std::to_string(error - all.begin()) + " has failed", "series", "see what that rank says", ExitCode::environment));
}

}  // namespace mptune::tuner
