#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "mptune/profiler/trace/error.h"
#include "mptune/tests/profiler/store/scratch.h"

namespace mptune {
namespace {

class Hostile : public testing::Scratch {
 protected:
  Hostile() { write_hand_made(); }

  void change(const std::string& sql) const { SQLite::Database(path(), SQLite::OPEN_READWRITE).exec(sql); }

  void put(const std::string& content) const { std::ofstream(path(), std::ios::binary | std::ios::trunc) << content; }

  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // The message of the refusal; a file that is read after all fails the test.
  [[nodiscard]] std::string refusal() const {
    try {
      (void)read_recording(path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_FALSE(error.where().empty() || error.remedy().empty());
      const std::string what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos);
      return what;
    }
    ADD_FAILURE() << "the file was accepted";
    return {};
  }

  void expect_refusal(const std::string& sql, const std::string& part) const {
    write_recording({.trace = testing::hand_trace(), .profile = testing::hand_profile()}, path(), true);
    change(sql);
    EXPECT_NE(refusal().find(part), std::string::npos) << sql << " -> " << refusal();
  }
};

TEST_F(Hostile, FilesThatAreNone) {
  EXPECT_THROW((void)read_recording(path("absent")), Error);
  EXPECT_THROW((void)read_recording(""), Error);
  EXPECT_THROW((void)read_recording(":memory:"), Error);
  EXPECT_THROW((void)read_recording(std::filesystem::path(path()).parent_path().string()), Error);
  put("");
  EXPECT_NE(refusal().find("empty"), std::string::npos);
  put("x");
  EXPECT_NE(refusal().find("not an SQLite file"), std::string::npos);
  put(std::string(10000, 'x'));
  EXPECT_NE(refusal().find("not an SQLite file"), std::string::npos);
}

TEST_F(Hostile, TruncatedAnywhere) {
  const std::string whole = bytes();
  for (const std::size_t size :
       {whole.size() - 1, whole.size() - 4096, whole.size() / 2, std::size_t{4096}, std::size_t{100}, std::size_t{20}}) {
    put(whole.substr(0, size));
    EXPECT_NE(refusal().find("truncated"), std::string::npos) << size;
  }
}

TEST_F(Hostile, AnotherProgramsDatabase) {
  std::filesystem::remove(path());
  SQLite::Database(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE cats (name TEXT)");
  EXPECT_NE(refusal().find("neither"), std::string::npos);
}

TEST_F(Hostile, AnotherVersion) {
  change("UPDATE MPTUNE_META SET value = '1000' WHERE name = 'schema_minor'");
  EXPECT_NO_THROW((void)read_recording(path()));
  change("UPDATE MPTUNE_META SET value = '2' WHERE name = 'schema_major'");
  EXPECT_NE(refusal().find("newer"), std::string::npos);
  change("UPDATE MPTUNE_META SET value = '99999999999999999999' WHERE name = 'schema_major'");
  EXPECT_FALSE(refusal().empty());
  change("DELETE FROM MPTUNE_META");
  EXPECT_FALSE(refusal().empty());
}

TEST_F(Hostile, WrongTypes) {
  expect_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'", "start");
  expect_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 1.5", "end");
  expect_refusal("UPDATE MPTUNE_EVENT SET what = 'forward'", "what");
  expect_refusal("UPDATE MPTUNE_DEVICE SET name = 7; UPDATE MPTUNE_DEVICE SET name = x'00'", "name");
  expect_refusal("UPDATE MPTUNE_LAYER_SAMPLE SET value = 'fast'", "value");
  expect_refusal("UPDATE StringIds SET value = x'ff00'", "value");
  expect_refusal("UPDATE NVTX_EVENTS SET end = NULL", "end");
}

TEST_F(Hostile, IndicesThatLeadNowhere) {
  expect_refusal("UPDATE MPTUNE_EVENT SET what = 200", "kind");
  expect_refusal("UPDATE MPTUNE_EVENT SET what = -1", "kind");
  expect_refusal("UPDATE MPTUNE_EVENT SET name = 1000000", "name");
  expect_refusal("UPDATE MPTUNE_EVENT SET tag = 1000000", "tag");
  expect_refusal("UPDATE MPTUNE_EVENT SET device = 2", "device");
  expect_refusal("UPDATE MPTUNE_EVENT SET device = 70000", "device");
  expect_refusal("UPDATE MPTUNE_EVENT SET lane = 256", "lane");
  expect_refusal("UPDATE MPTUNE_EDGE SET consumer = -5", "edge");
  expect_refusal("UPDATE MPTUNE_EDGE SET kind = 9", "edge");
  expect_refusal("UPDATE MPTUNE_LAUNCH SET event = 99999999999", "event");
  expect_refusal("UPDATE MPTUNE_LAYER_COST SET layer = 2", "layer");
  expect_refusal("UPDATE MPTUNE_LAYER_COST SET class = -1", "class");
  expect_refusal("UPDATE MPTUNE_LAYER_SAMPLE SET cost = 1000", "cost");
  expect_refusal("UPDATE MPTUNE_LAYER_SAMPLE SET kind = 4", "kind");
  expect_refusal("UPDATE MPTUNE_PROFILE_DEVICE SET class = 2", "class");
  expect_refusal("UPDATE MPTUNE_LINK SET source = 3", "device");
}

TEST_F(Hostile, CountsAndTimesBeyondReason) {
  expect_refusal("UPDATE MPTUNE_META SET value = '9223372036854775807' WHERE name = 'names'", "names");
  expect_refusal("UPDATE MPTUNE_META SET value = '-1' WHERE name = 'names'", "names");
  expect_refusal("UPDATE MPTUNE_META SET value = '9223372036854775807' WHERE name = 'time_shift_ns'", "shift");
  expect_refusal("UPDATE MPTUNE_DEVICE_CLASS SET layers = 9223372036854775807", "layers");
  expect_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9223372036854775807", "time");
  expect_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = -9223372036854775807 - 1", "time");
  expect_refusal("UPDATE MPTUNE_EVENT SET event = event + 1000000000", "missing");
}

TEST_F(Hostile, RowsAndTablesMissingOrTooMany) {
  expect_refusal("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = 1", "too few");
  expect_refusal("DELETE FROM MPTUNE_EVENT WHERE event = 0", "missing");
  expect_refusal("DELETE FROM MPTUNE_EVENT WHERE event = (SELECT max(event) FROM MPTUNE_EVENT)", "too many");
  expect_refusal("DELETE FROM MPTUNE_QUALITY", "MPTUNE_QUALITY");
  expect_refusal("DELETE FROM MPTUNE_PROFILE", "MPTUNE_PROFILE");
  expect_refusal("DROP TABLE MPTUNE_EDGE", "layout");
  expect_refusal(
      "DROP TABLE StringIds; CREATE VIEW StringIds AS WITH RECURSIVE r(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM r) SELECT id, 'x' "
      "value FROM r",
      "view");
}

TEST_F(Hostile, FlippedBytesNeverCrash) {
  const std::string whole = bytes();
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string spoiled = whole;
    for (int i = 0; i < 20; ++i) spoiled[random() % spoiled.size()] = static_cast<char>(random());
    put(spoiled);
    try {
      (void)read_recording(path());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace mptune
