package main

import (
	"encoding/xml"
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	var got struct {
		Texts []struct {
			Class string `xml:"class,attr"`
			Text  string `xml:",chardata"`
		} `xml:"text"`
	}
	picture := screenSVG("\n" + prompt + "attach <a> & b\n  two  spaces\n")
	if err := xml.Unmarshal([]byte(picture), &got); err != nil {
		t.Fatalf("%v:\n%s", err, picture)
	}
	if len(got.Texts) != 2 || got.Texts[0].Class != "command" || got.Texts[0].Text != prompt+"attach <a> & b" || got.Texts[1].Class != "" || got.Texts[1].Text != "  two  spaces" {
		t.Errorf("the texts are %+v", got.Texts)
	}
	if !strings.Contains(picture, "prefers-color-scheme: dark") {
		t.Error("the picture has no dark style")
	}
}
