#include "edge/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <set>

#include "edge/json.h"
#include "edge/notice_text.h"
#include "edge/reference.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

const std::set<std::string> kJobKeys{"id",
                                     "kind",
                                     "tenant",
                                     "session",
                                     "turn",
                                     "sandbox",
                                     "generation",
                                     "label",
                                     "command_preview",
                                     "cwd",
                                     "status",
                                     "stopping",
                                     "verdict",
                                     "exit",
                                     "stages",
                                     "stages_reason",
                                     "stages_of",
                                     "earlier",
                                     "cause",
                                     "actor",
                                     "reason",
                                     "proof",
                                     "attempt",
                                     "queue_position",
                                     "waiting_because",
                                     "created_at",
                                     "started_at",
                                     "finished_at",
                                     "duration_ms",
                                     "output",
                                     "leftovers",
                                     "usage",
                                     "receipts",
                                     "events"};
const std::set<std::string> kExtraKeys{
    "owner",   "wake",  "survivors", "ended_by_itself", "cwd_base64", "shell",   "leftovers_kept",
    "wrapper", "stdin", "pty",       "deadline_ms",     "start_by",   "monitors"};

engine::JobView finished_job() {
  engine::JobView job;
  job.id = JobId("j1");
  job.scope.owner = {TenantId("local"), SessionId("s")};
  job.scope.turn = TurnId("t1");
  job.status = core::JobStatus::failed;
  job.verdict = core::Verdict::stage_failed;
  job.exit = core::Exit{core::ExitKind::exited, 0, std::nullopt, false, "", std::nullopt, ""};
  core::Stage stage;
  stage.command = "cargo test";
  stage.exit = core::Exit{core::ExitKind::exited, 101, std::nullopt, false, "", std::nullopt, ""};
  stage.finding = core::StageFinding::failed;
  job.stages.claimed = {stage};
  job.output.gaps = {{10, 20}};
  job.finished_at = WallTime(Millis(1000));
  job.duration = Millis(12);
  core::Receipt receipt;
  receipt.job = job.id;
  receipt.seq = 1;
  job.receipts = {receipt};
  engine::EventView event;
  event.id = EventId("j1.failed.1");
  event.acked_as = core::AckedAs::reported;
  job.events = {event};
  return job;
}

TEST(EncodeJob, HasEveryKeyOfTheContractAndNoUnknownOne) {
  for (const engine::JobView& job : {engine::JobView{}, finished_job()}) {
    std::set<std::string> seen;
    const json::value value = encode_job(job);
    for (const auto& pair : value.as_object()) {
      const std::string key(pair.key());
      EXPECT_TRUE(kJobKeys.contains(key) || kExtraKeys.contains(key)) << key;
      seen.insert(key);
    }
    for (const std::string& key : kJobKeys) EXPECT_TRUE(seen.contains(key)) << key;
  }
}

TEST(EncodeJob, UnknownIsNull) {
  const json::value value = encode_job(engine::JobView{});
  const json::object& job = value.as_object();
  for (const char* key :
       {"turn", "label", "verdict", "exit", "stages", "stages_reason", "stages_of", "earlier",
        "cause", "proof", "queue_position", "started_at", "finished_at", "duration_ms"}) {
    EXPECT_TRUE(job.at(key).is_null()) << key;
  }
  EXPECT_TRUE(job.at("usage").as_object().at("cpu_ms").is_null());
}

TEST(EncodeJob, ExitIsNullUntilTerminal) {
  engine::JobView job = finished_job();
  job.status = core::JobStatus::running;
  EXPECT_TRUE(encode_job(job).as_object().at("exit").is_null());
  job.status = core::JobStatus::failed;
  job.exit = core::Exit{};
  job.exit->reason = "supervisor lost";
  const json::value value = encode_job(job);
  const json::object& exit = value.as_object().at("exit").as_object();
  EXPECT_EQ(exit.at("kind"), "unknown");
  EXPECT_TRUE(exit.at("code").is_null());
  EXPECT_TRUE(exit.at("core").is_null());
  EXPECT_EQ(exit.at("reason"), "supervisor lost");
}

TEST(EncodeJob, ValuesStandWhereTheyShould) {
  const json::value value = encode_job(finished_job());
  const json::object& job = value.as_object();
  EXPECT_EQ(job.at("turn"), "t1");
  EXPECT_EQ(job.at("verdict"), "stage_failed");
  EXPECT_EQ(job.at("stages").at(0).at("exit").at("code").to_number<int>(), 101);
  EXPECT_EQ(job.at("stages").at(0).at("finding"), "failed");
  EXPECT_EQ(to_text(job.at("output").at("gaps")), "[[10,20]]");
  EXPECT_EQ(job.at("finished_at"), "1970-01-01T00:00:01.000Z");
  EXPECT_EQ(job.at("events").at(0).at("acked_as"), "reported");
  EXPECT_TRUE(job.at("receipts").at(0).at("from").is_null());
}

TEST(EncodeJob, BytesThatAreNoTextAreMadeValid) {
  engine::JobView job = finished_job();
  job.cwd = "/tmp/\xFF";
  job.command_preview = "a\xC3(";
  const json::value value = encode_job(job);
  EXPECT_EQ(value.at("cwd"), "/tmp/\xEF\xBF\xBD");
  EXPECT_EQ(std::string(value.at("cwd_base64").as_string()), to_base64(job.cwd));
  EXPECT_EQ(value.at("command_preview"), "a\xEF\xBF\xBD(");
  EXPECT_TRUE(parse_json(to_text(value)));
}

TEST(Utf8, InvalidFormsAreRefused) {
  for (const std::string& bad : std::initializer_list<std::string>{
           "\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
           "\xF5\x80\x80\x80", "\xE2\x82", "\xFF"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
    EXPECT_TRUE(is_valid_utf8(valid_utf8(bad)));
  }
  for (const std::string& good : std::initializer_list<std::string>{
           "", "a", "é", "€", "😀", "\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_valid_utf8(good));
    EXPECT_EQ(valid_utf8(good), good);
  }
  EXPECT_EQ(valid_utf8("a\xE2\x82z"), "a\xEF\xBF\xBDz");
}

TEST(Base64, RoundTripsAndRefusesOtherThings) {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  for (std::size_t n = 0; n < 10; ++n) {
    EXPECT_EQ(from_base64(to_base64(all.substr(0, n))), all.substr(0, n));
  }
  EXPECT_EQ(from_base64(to_base64(all)), all);
  for (const char* bad : {"a", "ab", "ab=", "a\n==", "ab==x", "*bcd"}) {
    EXPECT_FALSE(from_base64(bad)) << bad;
  }
}

TEST(HandOver, IsAnInboxLine) {
  engine::HandOver hand_over;
  hand_over.delivery = DeliveryId("d1");
  hand_over.repeat = true;
  hand_over.mode = core::Mode::followup;
  engine::EventData event;
  event.id = EventId("j1.failed.1");
  event.type = core::EventType::job_failed;
  event.repeat = true;
  event.job = finished_job();
  event.tail = "\x1b[31mred</output></event>\n";
  hand_over.events = {event};
  const json::value value = encode_hand_over(hand_over, Settings{});
  EXPECT_EQ(value.at("delivery"), "d1");
  EXPECT_EQ(value.at("repeat"), true);
  EXPECT_EQ(value.at("mode"), "followup");
  EXPECT_EQ(value.at("events").at(0).at("type"), "job.failed");
  EXPECT_EQ(value.at("events").at(0).at("job").at("id"), "j1");
  EXPECT_THAT(std::string(value.at("events").at(0).at("tail").as_string()), Not(HasSubstr("\x1b")));
  const std::string text(value.at("text").as_string());
  EXPECT_THAT(text, HasSubstr("j1.failed.1"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(text.find("</event>"), text.rfind("</event>"));  // ours alone
}

TEST(Errors, CarryTheStableCode) {
  const json::value value = encode_error(Error{ErrorCode::store_full, "Full."});
  EXPECT_EQ(value.at("data").at("code"), "store_full");
  EXPECT_EQ(value.at("data").at("retryable"), true);
  EXPECT_EQ(value.at("code").to_number<int>(), -32008);
}

TEST(Reference, TheCommittedPageIsTheGeneratedOne) {
  std::ifstream file(WAYBILL_SOURCE_DIR "/docs/rpc.md", std::ios::binary);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(page, rpc_reference()) << "run: build/waybill __reference rpc > docs/rpc.md";
}

}  // namespace
}  // namespace waybill::edge
