package doctor

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// Service is the systemd service of a process, or zero if the process has no service.
type Service struct {
	// Group is the control group of the service.
	Group string
	// Causes are the settings that give the service its own mounts, each with the files that contain the setting.
	// Resets are the lines of a drop-in that undo the settings in Causes.
	Causes, Resets []string
}

// name returns the name of the unit.
func (s *Service) name() string { return path.Base(s.Group) }

// The method `services` reads the systemd settings of the kubelets and runtimes whose view is not the host's view.
func (src Source) services(ctx context.Context, s *Snapshot) {
	for i := range s.Views {
		v := &s.Views[i]
		for j := range v.Processes {
			p := &v.Processes[j]
			if p.Service.Group == "" || p.Role != Kubelet && p.Role != Runtime {
				continue
			}
			if err := src.service(ctx, &p.Service); err != nil {
				s.blind("cannot read systemd's settings of %s: %v", disk.Visible(p.Service.name()), err)
			}
		}
	}
}

// service asks systemd for the settings of a service. If the service belongs to another systemd, such as one in a
// container, *s becomes the zero value.
func (src Source) service(ctx context.Context, s *Service) error {
	properties := []string{"ControlGroup", "FragmentPath", "DropInPaths"}
	settings := advice("host-mounts")
	for _, line := range settings {
		name, _, _ := strings.Cut(line, "=")
		properties = append(properties, name)
	}
	text, err := src.Show(ctx, s.name(), properties)
	if err != nil {
		return err
	}
	shown := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		shown[name] = value
	}
	if shown["ControlGroup"] != s.Group {
		*s = Service{}
		return nil
	}
	files := append([]string{shown["FragmentPath"]}, strings.Fields(shown["DropInPaths"])...)
	for _, line := range settings {
		setting, instead, _ := strings.Cut(line, " ")
		name, off, _ := strings.Cut(setting, "=")
		value, known := shown[name]
		if !known || value == off {
			continue
		}
		in, err := src.setIn(files, name)
		if err != nil {
			return err
		}
		s.Causes, s.Resets = append(s.Causes, disk.Visible(name+"="+value)+in), append(s.Resets, cmp.Or(instead, setting))
	}
	return nil
}

// setIn returns a text with the names of the files that contain a setting. If no file contains the setting, because
// another setting implies it, the text is "".
func (src Source) setIn(files []string, name string) (string, error) {
	var in []string
	for _, file := range files {
		text, err := src.read(file)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			key, _, found := strings.Cut(line, "=")
			key = strings.TrimSpace(key)
			// systemd still reads the former names ReadWriteDirectories=, ReadOnlyDirectories= and
			// InaccessibleDirectories= (systemd.exec(5)).
			return found && (key == name || key == strings.Replace(name, "Paths", "Directories", 1))
		}) {
			in = append(in, disk.Visible(file))
		}
	}
	if in == nil {
		return "", nil
	}
	return " in " + strings.Join(in, " and "), nil
}
