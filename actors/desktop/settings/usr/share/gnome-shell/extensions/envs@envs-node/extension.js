// Runs in GNOME Shell 43. Keeps what changes by itself off the screen.
/* exported init */
const Main = imports.ui.main;

class Quiet {
    enable() {
        // The shell looks at this once, while it starts: afterwards the overview is as ever.
        this._hadOverview = Main.sessionMode.hasOverview;
        if (Main.layoutManager._startingUp) {
            Main.sessionMode.hasOverview = false;
            this._started = Main.layoutManager.connect('startup-complete', () => {
                Main.sessionMode.hasOverview = this._hadOverview;
            });
        }
        Main.panel.statusArea.dateMenu.container.hide();
        // Its name is told by the label in it alone, which whoever lists buttons does not ask.
        Main.panel.statusArea.activities.accessible_name = 'Activities';
    }

    disable() {
        if (this._started)
            Main.layoutManager.disconnect(this._started);
        Main.panel.statusArea.dateMenu.container.show();
    }
}

function init() {
    return new Quiet();
}
