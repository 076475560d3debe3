#include "tests/emulation/cupti/nvtx_markers.h"

#include <cupti.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "tests/emulation/cupti/buffers.h"
#include "tests/emulation/cupti/clock.h"
#include "tests/emulation/cupti/switches.h"
#include "tests/emulation/cupti/threads.h"
#include "tests/emulation/machine/machine.h"

namespace emulation::cupti {

namespace {

std::atomic<std::uint32_t> numbers = 0;

using Open = std::map<const NvtxDomain*, std::vector<std::uint32_t>>;

// Not deleted with its thread, whose other destructors may still pop ranges.
std::vector<std::uint32_t>& open_ranges(const NvtxDomain* domain) {
  static thread_local Open* const open = new Open;
  return (*open)[domain];
}

void append_utf8(std::string& text, char32_t letter) {
  const auto last = [&](int shift) { text += static_cast<char>(0x80 | ((letter >> shift) & 0x3f)); };
  if (letter < 0x80) {
    text += static_cast<char>(letter);
  } else if (letter < 0x800) {
    text += static_cast<char>(0xc0 | (letter >> 6));
    last(0);
  } else if (letter < 0x10000) {
    text += static_cast<char>(0xe0 | (letter >> 12));
    last(6);
    last(0);
  } else {
    text += static_cast<char>(0xf0 | (letter >> 18));
    last(12);
    last(6);
    last(0);
  }
}

void write_marker(CUpti_ActivityFlag flag, std::uint32_t number, const NvtxDomain* domain, const char* text) {
  if (!switches().records(CUPTI_ACTIVITY_KIND_MARKER)) return;
  CUpti_ActivityMarker2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MARKER;
  record.flags = flag;
  record.timestamp = now();
  record.id = number;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.processId = static_cast<std::uint32_t>(getpid());
  record.objectId.pt.threadId = thread_number();
  record.name = text;
  record.domain = domain == nullptr ? nullptr : domain->name;
  buffers().write(record);
}

void set_payload(const nvtxEventAttributes_t& attributes, CUpti_ActivityMarkerData2& record) {
  switch (attributes.payloadType) {
    case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64:
      record.payloadKind = CUPTI_METRIC_VALUE_KIND_UINT64;
      record.payload.metricValueUint64 = attributes.payload.ullValue;
      return;
    case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32:
      record.payloadKind = CUPTI_METRIC_VALUE_KIND_UINT64;
      record.payload.metricValueUint64 = attributes.payload.uiValue;
      return;
    case NVTX_PAYLOAD_TYPE_INT64:
      record.payloadKind = CUPTI_METRIC_VALUE_KIND_INT64;
      record.payload.metricValueInt64 = attributes.payload.llValue;
      return;
    case NVTX_PAYLOAD_TYPE_INT32:
      record.payloadKind = CUPTI_METRIC_VALUE_KIND_INT64;
      record.payload.metricValueInt64 = attributes.payload.iValue;
      return;
    case NVTX_PAYLOAD_TYPE_DOUBLE:
      record.payload.metricValueDouble = attributes.payload.dValue;
      return;
    case NVTX_PAYLOAD_TYPE_FLOAT:
      record.payload.metricValueDouble = static_cast<double>(attributes.payload.fValue);
      return;
    default:
      return;
  }
}

// A range without a payload, but with a colour, has the kind DOUBLE and the value 0.
void write_marker_data(std::uint32_t number, const nvtxEventAttributes_t& attributes) {
  const bool coloured = attributes.colorType != NVTX_COLOR_UNKNOWN;
  const bool is_empty = !coloured && attributes.payloadType == NVTX_PAYLOAD_UNKNOWN && attributes.category == 0;
  if (is_empty || !switches().records(CUPTI_ACTIVITY_KIND_MARKER) || !switches().records(CUPTI_ACTIVITY_KIND_MARKER_DATA)) return;
  CUpti_ActivityMarkerData2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MARKER_DATA;
  record.flags = coloured ? CUPTI_ACTIVITY_FLAG_MARKER_COLOR_ARGB : CUPTI_ACTIVITY_FLAG_MARKER_COLOR_NONE;
  record.id = number;
  record.payloadKind = CUPTI_METRIC_VALUE_KIND_DOUBLE;
  set_payload(attributes, record);
  record.color = coloured ? attributes.color : 0;
  record.category = attributes.category;
  buffers().write(record);
}

std::uint32_t write_begin(CUpti_ActivityFlag flag, const NvtxText& text) {
  const std::uint32_t number = ++numbers;
  write_marker(flag, number, text.domain, text.text);
  if (text.attributes != nullptr) write_marker_data(number, *text.attributes);
  return number;
}

}  // namespace

const char* interned(const char* text) {
  return text == nullptr ? nullptr : intern(text);
}

const char* interned(const wchar_t* text) {
  if (text == nullptr) return nullptr;
  std::string narrow;
  for (; *text != L'\0'; ++text) append_utf8(narrow, static_cast<char32_t>(*text));
  return intern(narrow);
}

const char* message_of(const nvtxEventAttributes_t& attributes) {
  switch (attributes.messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return interned(attributes.message.ascii);
    case NVTX_MESSAGE_TYPE_UNICODE:
      return interned(attributes.message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED: {
      const auto* string = reinterpret_cast<const NvtxString*>(attributes.message.registered);
      return string == nullptr ? nullptr : string->text;
    }
    default:
      return nullptr;
  }
}

void mark(const NvtxText& text) {
  write_begin(CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS, text);
}

std::uint64_t start_range(const NvtxText& text) {
  return write_begin(CUPTI_ACTIVITY_FLAG_MARKER_START, text);
}

void end_range(const NvtxDomain* domain, std::uint64_t range) {
  write_marker(CUPTI_ACTIVITY_FLAG_MARKER_END, static_cast<std::uint32_t>(range), domain, nullptr);
}

int push_range(const NvtxText& text) {
  std::vector<std::uint32_t>& open = open_ranges(text.domain);
  open.push_back(write_begin(CUPTI_ACTIVITY_FLAG_MARKER_START, text));
  return static_cast<int>(open.size()) - 1;
}

int pop_range(const NvtxDomain* domain) {
  std::vector<std::uint32_t>& open = open_ranges(domain);
  if (open.empty()) return NVTX_NO_PUSH_POP_TRACKING;
  write_marker(CUPTI_ACTIVITY_FLAG_MARKER_END, open.back(), domain, nullptr);
  open.pop_back();
  return static_cast<int>(open.size());
}

}  // namespace emulation::cupti
