#include "profiler/trace/formats/chrome_events.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/printable.h"
#include "profiler/trace/formats/text_lines.h"

namespace mptune::profiler {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kFurthest = std::int64_t{1} << 61;
constexpr std::size_t kDeepest = 64;
constexpr std::array<std::string_view, kChromeArgs> kArgNames = {
    "stream",        "correlation",    "device",   "context",  "bytes",       "registers per thread",
    "shared memory", "fromDevice",     "toDevice", "step",     "model_chunk", "mb_id",
    "In msg nelems", "Out msg nelems", "Seq",      "Src Rank", "Dst Rank",    "event",
    "stage",         "layer",          "replica",  "source",   "destination"};
constexpr std::array<std::string_view, kChromeWords> kWordNames = {
    "Collective name", "dtype", "Process Group Name", "Process Group Ranks", "kind", "label", "after", "Task Type"};

// A number of the file; floats keep their decimal digits.
struct Number {
  std::optional<std::int64_t> integer{};
  double value = 0;
  const std::string* text = nullptr;
};

// Returns decimal microseconds without exponent as nanoseconds, rounded; nullopt if there are too many digits.
std::optional<std::int64_t> nanoseconds_of_digits(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  std::int64_t value = 0;
  int decimals = -1;  // -1: before the point
  for (const char c : text) {
    if (c == '.') {
      decimals = 0;
      continue;
    }
    if (decimals == 3) {
      value += c >= '5' ? 1 : 0;
      break;
    }
    if (value > kFurthest / 10) return std::nullopt;
    value = value * 10 + (c - '0');
    if (decimals >= 0) ++decimals;
  }
  for (int i = std::max(decimals, 0); i < 3; ++i) {
    if (value > kFurthest / 10) return std::nullopt;
    value *= 10;
  }
  return negative ? -value : value;
}

std::optional<std::int64_t> nanoseconds_of(const Number& number) {
  if (number.integer) {
    if (std::abs(static_cast<double>(*number.integer)) > static_cast<double>(kFurthest) / 1000) return std::nullopt;
    return *number.integer * 1000;
  }
  if (!(std::abs(number.value) < static_cast<double>(kFurthest) / 1000)) return std::nullopt;
  if (number.text->find_first_of("eE") != std::string::npos) return std::llround(number.value * 1000);
  return nanoseconds_of_digits(*number.text);
}

std::string text_of(const Number& number) {
  return number.integer ? std::to_string(*number.integer) : *number.text;
}

bool is_negative(const Number& number) {
  return number.integer ? *number.integer < 0 : number.value < 0;
}

std::optional<std::int64_t> integer_of(const Number& number) {
  if (number.integer) return number.integer;
  const bool whole = std::abs(number.value) < 1e15 && number.value == std::floor(number.value);
  return whole ? std::optional<std::int64_t>(static_cast<std::int64_t>(number.value)) : std::nullopt;
}

int clamped(std::int64_t value) {
  return static_cast<int>(std::clamp<std::int64_t>(value, 0, std::numeric_limits<int>::max()));
}

// Handles the parser's events by their place in the document.
class Handler : public nlohmann::json_sax<Json> {
 public:
  Handler(TextInput& input, const ChromeVisitor& visit) : input_(input), visit_(visit) {}

  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] ChromeHeader header() && {
    if (!has_events_) refuse("it is JSON, but holds no list of events");
    return std::move(header_);
  }

  bool start_object(std::size_t) override { return enter(object_place()); }
  bool start_array(std::size_t) override { return enter(array_place()); }
  bool end_object() override {
    const Place left = leave();
    if (left != Place::event) return true;
    input_.item();
    stopped_ = !visit_(event_);
    return !stopped_;
  }
  bool end_array() override {
    leave();
    return true;
  }
  bool key(string_t& name) override {
    input_.token();
    key_ = name;
    return true;
  }

  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t value) override { return number({.integer = value}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      const std::string text = std::to_string(value);
      return number({.value = static_cast<double>(value), .text = &text});
    }
    return number({.integer = static_cast<std::int64_t>(value)});
  }
  bool number_float(number_float_t value, const string_t& text) override { return number({.value = value, .text = &text}); }
  bool string(string_t& text) override;
  bool binary(binary_t&) override { return true; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& failure) override {
    // 406: the number exceeds a double.
    const TextPlace place = input_.place(static_cast<std::int64_t>(position));
    const std::string at = "line " + std::to_string(place.line) + ", column " + std::to_string(place.column);
    if (failure.id == 406) refuse("a number is out of range at " + at);
    if (place.at_end) refuse("it is not valid JSON: it ends at " + at + ", before its last bracket");
    throw Error("it is not valid JSON at " + at + ", near '" + printable(place.near) + "'", input_.where(),
                "mend the text there or just before it (a quotation mark within a name needs a backslash), or record again");
  }

 private:
  enum class Place { outside, top, events, event, args, grid, block, devices, device, distributed, exported, ignored };

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(what, input_.where(), "give a trace as a profiler wrote it, complete");
  }

  Place place() const { return places_.empty() ? Place::outside : places_.back(); }

  Place object_place() {
    switch (place()) {
      case Place::outside:
        return Place::top;
      case Place::top:
        return key_ == "distributedInfo" ? Place::distributed : key_ == "mptune" ? Place::exported : Place::ignored;
      case Place::events:
        event_ = {};
        return Place::event;
      case Place::event:
        require_no_time();
        return key_ == "args" ? Place::args : Place::ignored;
      case Place::devices:
        if (header_.devices.size() >= kMostDevices) refuse("it has more than 4096 devices");
        header_.devices.emplace_back();
        return Place::device;
      default:
        return Place::ignored;
    }
  }

  Place array_place() {
    switch (place()) {
      case Place::outside:
        has_events_ = true;
        return Place::events;
      case Place::top:
        if (key_ == "traceEvents") has_events_ = true;
        return key_ == "traceEvents" ? Place::events : key_ == "deviceProperties" ? Place::devices : Place::ignored;
      case Place::events:
        refuse("an event is not an object");
      case Place::event:
        require_no_time();
        return Place::ignored;
      case Place::args:
        dimension_ = 0;
        return key_ == "grid" ? Place::grid : key_ == "block" ? Place::block : Place::ignored;
      default:
        return Place::ignored;
    }
  }

  bool enter(Place next) {
    input_.token();
    if (places_.size() >= kDeepest) refuse("it is nested deeper than 64 levels");
    places_.push_back(next);
    return true;
  }

  Place leave() {
    input_.token();
    const Place left = places_.back();
    places_.pop_back();
    return left;
  }

  void require_no_time() const {
    if (key_ == "ts" || key_ == "dur") refuse("an event's " + key_ + " is not a number");
  }

  bool scalar() {
    input_.token();
    if (place() == Place::events) refuse("an event is not an object");
    if (place() == Place::outside) refuse("it is JSON, but holds no list of events");
    if (place() == Place::event) require_no_time();
    return true;
  }

  bool number(const Number& value);
  void time_text(const std::string& text);
  void event_number(const Number& value);
  void arg_number(const Number& value);
  void exported_number(std::int64_t value);
  void arg_text(string_t& text);

  TextInput& input_;
  const ChromeVisitor& visit_;
  ChromeHeader header_;
  ChromeEvent event_;
  std::vector<Place> places_;
  std::string key_;
  std::size_t dimension_ = 0;
  bool has_events_ = false;
  bool stopped_ = false;
};

void Handler::event_number(const Number& value) {
  if (key_ == "ts" || key_ == "dur") {
    const auto time = nanoseconds_of(value);
    if (!time && event_.out_of_range.empty()) event_.out_of_range = key_ + " " + text_of(value);
    (key_ == "ts" ? event_.time : event_.duration) = Nanoseconds{time.value_or(is_negative(value) ? -kFurthest : kFurthest)};
  } else if (key_ == "pid" || key_ == "tid") {
    const auto id = integer_of(value);
    (key_ == "pid" ? event_.process : event_.thread) = id ? std::to_string(*id) : *value.text;
  }
}

void Handler::arg_number(const Number& value) {
  const auto found = std::find(kArgNames.begin(), kArgNames.end(), key_);
  if (found != kArgNames.end()) event_.args[as_index(found - kArgNames.begin())] = integer_of(value);
}

void Handler::arg_text(string_t& text) {
  const auto found = std::find(kWordNames.begin(), kWordNames.end(), key_);
  if (found != kWordNames.end())
    event_.words[as_index(found - kWordNames.begin())] = std::move(text);
  else if (key_ == "name")
    event_.args_name = std::move(text);
}

void Handler::exported_number(std::int64_t value) {
  if (key_ == "device") header_.exported.device = value;
  if (key_ == "devices") header_.exported.devices = value;
  if (key_ == "peak_bytes") header_.exported.peak_bytes = std::clamp(value, std::int64_t{0}, std::int64_t{1} << 50);
  if (key_ == "simulated") header_.exported.simulated = value != 0;
}

bool Handler::number(const Number& value) {
  const Place here = place();
  if (here == Place::outside || here == Place::events) return scalar();
  input_.token();
  const std::int64_t integer = integer_of(value).value_or(0);
  if (here == Place::event) event_number(value);
  if (here == Place::args) arg_number(value);
  if ((here == Place::grid || here == Place::block) && dimension_ < 3)
    (here == Place::grid ? event_.grid : event_.block)[dimension_++] = clamped(integer);
  if (here == Place::top && key_ == "baseTimeNanoseconds") header_.base_time_ns = std::clamp(integer, std::int64_t{0}, kFurthest);
  if (here == Place::distributed && key_ == "rank") header_.rank = integer_of(value).value_or(-1);
  if (here == Place::distributed && key_ == "world_size") header_.ranks = integer;
  if (here == Place::exported) exported_number(integer);
  if (here == Place::device && key_ == "numSms") header_.devices.back().cores = clamped(integer);
  if (here == Place::device && key_ == "id") header_.devices.back().id = integer;
  if (here == Place::device && key_ == "totalGlobalMem")
    header_.devices.back().memory_bytes = std::clamp(integer, std::int64_t{0}, std::int64_t{1} << 50);
  return true;
}

// Reads a time as text, as some profilers write it.
void Handler::time_text(const std::string& text) {
  const std::string digits(trimmed(text));
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size() && std::isfinite(value);
  if (!is_number) require_no_time();
  event_number({.value = value, .text = &digits});
}

bool Handler::string(string_t& text) {
  const Place here = place();
  if (here == Place::event && (key_ == "ts" || key_ == "dur")) {
    input_.token();
    time_text(text);
    return true;
  }
  if (here == Place::event) {
    std::string* target = key_ == "ph"     ? &event_.phase
                          : key_ == "cat"  ? &event_.category
                          : key_ == "name" ? &event_.name
                          : key_ == "pid"  ? &event_.process
                          : key_ == "tid"  ? &event_.thread
                                           : nullptr;
    if (target != nullptr) *target = std::move(text);
  }
  if (here == Place::args) arg_text(text);
  if (here == Place::exported && key_ == "trace") header_.exported.trace = std::move(text);
  if (here == Place::exported && key_ == "description") header_.exported.description = std::move(text);
  if (here == Place::device && key_ == "name") header_.devices.back().name = std::move(text);
  return scalar();
}

}  // namespace

ChromeHeader read_chrome_events(TextInput& input, const ChromeVisitor& visit) {
  std::istream stream(&input);
  stream.exceptions(std::ios::badbit);
  input.item();
  Handler handler(input, visit);
  const bool complete = Json::sax_parse(stream, &handler);
  if (!complete && !handler.stopped()) throw Error("it is not valid JSON", input.where(), "give a trace as a profiler wrote it, complete");
  return std::move(handler).header();
}

}  // namespace mptune::profiler
